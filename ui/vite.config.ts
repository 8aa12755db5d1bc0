import { readFileSync } from "node:fs";
import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vitest/config";

const server = process.env["RUSHES_URL"] ?? "http://127.0.0.1:8484";
// Pages of the same names are ours: only what lies below a share link is the server's.
const theirs = ["/api", "/v1", "/health", "/livez", "/readyz", "/metrics", "/oembed", "^/s/[^/]+/.+", "^/sign-in\\?token"];

// The font may be passed on with its licence beside it.
const fontLicence = {
  name: "font-licence",
  generateBundle(this: { emitFile: (file: { type: "asset"; fileName: string; source: Uint8Array }) => string }) {
    const source = readFileSync(new URL("node_modules/@fontsource-variable/figtree/LICENSE", import.meta.url));
    this.emitFile({ type: "asset", fileName: "assets/figtree-licence.txt", source });
  },
};

export default defineConfig({
  plugins: [svelte(), fontLicence],
  build: {
    outDir: "../src/rushes/web/static",
    emptyOutDir: true,
    // Inlined files would need a content security policy that allows them.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    chunkSizeWarningLimit: 700,
    // What is shown on other sites comes without the rest of the application.
    rolldownOptions: { input: ["index.html", "embed.html"] },
  },
  server: { proxy: Object.fromEntries(theirs.map((path) => [path, server])) },
  test: { include: ["tests/**/*.test.ts"], environment: "node" },
});
