import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vitest/config";

const server = process.env["RUSHES_URL"] ?? "http://127.0.0.1:8484";
// Pages of the same names are ours: only what lies below a share link is the server's.
const theirs = ["/api", "/v1", "/health", "/livez", "/readyz", "/metrics", "^/s/[^/]+/.+", "^/sign-in\\?token"];

export default defineConfig({
  plugins: [svelte()],
  build: {
    outDir: "../src/rushes/web/static",
    emptyOutDir: true,
    // Inlined files would need a content security policy that allows them.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    chunkSizeWarningLimit: 700,
  },
  server: { proxy: Object.fromEntries(theirs.map((path) => [path, server])) },
  test: { include: ["tests/**/*.test.ts"], environment: "node" },
});
