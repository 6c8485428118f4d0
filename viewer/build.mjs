// SPDX-License-Identifier: MIT OR Apache-2.0
// Bundles the viewer into dist/, from which crates/web embeds it.
import { copyFile, mkdir } from "node:fs/promises";
import { build } from "esbuild";

const watch = process.argv.includes("--readable");
await mkdir("dist", { recursive: true });
await build({
	entryPoints: [
		{ in: "src/main.tsx", out: "viewer" },
		{ in: "src/worker.ts", out: "worker" },
		{ in: "src/viewer.css", out: "viewer" },
	],
	bundle: true,
	minify: !watch,
	format: "esm",
	target: "es2022",
	legalComments: "inline",
	outdir: "dist",
});
await copyFile("src/index.html", "dist/index.html");
await copyFile("src/icon.svg", "dist/icon.svg");
