// SPDX-License-Identifier: MIT OR Apache-2.0
// Hands a trace over to Perfetto's page (https://perfetto.dev/docs/visualization/deep-linking-to-perfetto-ui): a window is opened, asked with PING
// until it answers with PONG, and then gets the bytes in a message. Nothing is sent to another site than this one.

export const SITE = "https://ui.perfetto.dev";
const PING_MS = 100;
const PATIENCE_MS = 60_000;

/** Opens the page. To be called when a button is pressed: browsers open no other windows. */
export function openPerfetto(): Window | null {
	const perfetto = open("about:blank", "_blank");
	if (!perfetto) return null;
	// It has no way back to this page.
	perfetto.opener = null;
	perfetto.location.href = SITE;
	return perfetto;
}

/** Resolves once the page has taken the bytes. */
export async function handOver(
	perfetto: Window,
	buffer: ArrayBuffer,
	title: string,
	signal: AbortSignal,
): Promise<void> {
	await isReady(perfetto, signal);
	perfetto.postMessage({ perfetto: { buffer, title, fileName: `${title}.pftrace` } }, SITE, [buffer]);
}

function isReady(perfetto: Window, signal: AbortSignal): Promise<void> {
	return new Promise((resolve, reject) => {
		const end = performance.now() + PATIENCE_MS;
		const stop = (why?: string) => {
			clearInterval(timer);
			removeEventListener("message", heard);
			if (why === undefined) resolve();
			else reject(new Error(why));
		};
		const heard = (event: MessageEvent) => {
			if (event.source === perfetto && event.origin === SITE && event.data === "PONG") stop();
		};
		const ask = () => {
			if (signal.aborted) stop("cancelled");
			else if (perfetto.closed) stop("the Perfetto window was closed");
			else if (performance.now() > end) stop(`${SITE} is not responding`);
			// To whatever is there: the page may not have been loaded yet. It says nothing.
			else perfetto.postMessage("PING", "*");
		};
		const timer = setInterval(ask, PING_MS);
		addEventListener("message", heard);
	});
}
