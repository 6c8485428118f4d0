// SPDX-License-Identifier: MIT OR Apache-2.0
// The dialog that makes files: of the view, of the range, and for Perfetto.
import { useEffect, useRef, useState } from "preact/hooks";
import * as api from "./api";
import type { Painter } from "./painter";
import { handOver, openPerfetto, SITE } from "./perfetto";
import { duration, moment } from "./time";
import type { Scene, Span } from "./timeline";

interface Props {
	recording: number;
	origin: bigint;
	whole: Span;
	painter: Painter;
	scene: Scene;
	close: () => void;
}

/** Gives the browser a file to keep. */
function keep(blob: Blob, name: string): void {
	const link = document.createElement("a");
	link.href = URL.createObjectURL(blob);
	link.download = name;
	link.click();
	// The browser has taken it by then.
	setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

export function Exports({ recording, origin, whole, painter, scene, close }: Props) {
	const dialog = useRef<HTMLDialogElement>(null);
	const controller = useRef(new AbortController());
	const [isBusy, setBusy] = useState(false);
	const [said, say] = useState<{ text: string; isProblem: boolean } | null>(null);
	useEffect(() => {
		dialog.current?.showModal();
		return () => controller.current.abort();
	}, []);
	const range = scene.range ?? whole;
	const begin = origin + BigInt(Math.floor(range.begin));
	const end = origin + BigInt(Math.ceil(range.end));
	const what = scene.range
		? `the range (${duration(range.end - range.begin)} from ${moment(range.begin, 1e3)})`
		: "the whole trace";

	/** One at a time; what it resolves to is said. */
	const run = async (doing: string, work: () => Promise<string>) => {
		setBusy(true);
		say({ text: doing, isProblem: false });
		try {
			say({ text: await work(), isProblem: false });
		} catch (error) {
			say({ text: (error as Error).message, isProblem: true });
		}
		setBusy(false);
	};
	const save = (kind: "png" | "svg") =>
		run("Drawing…", async () => {
			const blob = await painter.file(kind);
			if (!blob) throw new Error("the browser cannot make a picture of this size");
			keep(blob, `timeline.${kind}`);
			return `Saved timeline.${kind}.`;
		});
	const trim = () => run("Writing the trace…", async () => `Wrote ${await api.trim(recording, begin, end)}`);
	const perfetto = () => {
		// Now, because a button was pressed.
		const opened = openPerfetto();
		void run("Preparing the data…", async () => {
			if (!opened) throw new Error("the browser did not open a window: allow pop-up windows for this page");
			const { signal } = controller.current;
			try {
				const came = (bytes: number) =>
					say({ text: `Preparing the data… ${(bytes / 2 ** 20).toFixed(1)} MiB`, isProblem: false });
				const buffer = await api.perfetto(recording, begin, end, signal, came);
				say({ text: `Waiting for ${SITE}…`, isProblem: false });
				await handOver(opened, buffer, "Piste", signal);
			} catch (error) {
				opened.close();
				throw error;
			}
			return "Sent. The trace is in the other window.";
		});
	};
	return (
		<dialog ref={dialog} class="exports" onClose={close} aria-label="Export">
			<h2>Export</h2>
			<h3>This view as a picture</h3>
			<p class="buttons">
				<button type="button" disabled={isBusy} onClick={() => save("png")}>
					Save as PNG
				</button>
				<button type="button" disabled={isBusy} onClick={() => save("svg")}>
					Save as SVG
				</button>
			</p>
			<h3>The range as a trace</h3>
			{scene.range ? (
				<p>Writes {what} to a new folder beside the trace. No existing file is changed.</p>
			) : (
				<p>Select a range first: drag with Shift, or select a piece and press R.</p>
			)}
			<p class="buttons">
				<button type="button" disabled={isBusy || !scene.range} onClick={trim}>
					Write trace
				</button>
			</p>
			<h3>Perfetto</h3>
			<p>
				Opens ui.perfetto.dev, which is another website, in a new window and passes the events of {what} to that page in
				your browser. Piste does not control what the page does with them. Nothing is sent until you press the button.
			</p>
			<p class="buttons">
				<button type="button" disabled={isBusy} onClick={perfetto}>
					Send to ui.perfetto.dev
				</button>
				<a class="button" href={api.perfettoAddress(recording, begin, end)} download="trace.pftrace">
					Save the file instead
				</a>
			</p>
			<p role={said?.isProblem ? "alert" : "status"} class={said?.isProblem ? "wrong" : "faint"}>
				{said?.text}
			</p>
			<p class="buttons">
				<button type="button" onClick={() => dialog.current?.close()}>
					Close
				</button>
			</p>
		</dialog>
	);
}
