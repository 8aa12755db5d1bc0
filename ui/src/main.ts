import "./app.css";
import { mount } from "svelte";
import App from "./App.svelte";
import { translate } from "./lib/language";
import { router } from "./lib/router.svelte";

router.start();
void translate({ de: () => import("./de") }).then(() => mount(App, { target: document.getElementById("app")! }));
