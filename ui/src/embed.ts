import "./app.css";
import { mount } from "svelte";
import { translate } from "./lib/language";
import Embed from "./pages/Embed.svelte";

const token = decodeURIComponent(location.pathname.split("/")[2] ?? "");
const asked = new URLSearchParams(location.search).get("t");
void translate({ de: () => import("./embed.de") }).then(() => mount(Embed, { target: document.getElementById("app")!, props: { token, asked } }));
