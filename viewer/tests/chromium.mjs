// SPDX-License-Identifier: MIT OR Apache-2.0
// The browser that the tests drive: chromium's headless shell where it is installed, which takes a third of the CPU time of a whole chromium.
import { existsSync } from "node:fs";
import { chromium } from "playwright-core";

const PROGRAMS = ["/usr/bin/chromium-headless-shell", "/usr/bin/chromium"];

export const launch = () =>
	chromium.launch({
		executablePath: process.env.CHROMIUM ?? PROGRAMS.find(existsSync),
		args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"],
	});
