// SPDX-License-Identifier: MIT OR Apache-2.0
import { useEffect, useRef } from "preact/hooks";
import { CLASS_NAMES, CLASSES, css, type Theme } from "./colours";

const KEYS = [
	["W, S", "zoom in, out (also the wheel, or a pinch)"],
	["A, D", "move to the left, right (also drag)"],
	["F", "fit: the selection, the range, or everything"],
	["↑, ↓", "select the lane above, below"],
	[". and ,", "next, previous in the lane"],
	["[", "go to the thread that ended the selected wait"],
	["]", "go to the thread that the selected one wakes next"],
	["Enter", "show the system calls of the selected thread"],
	["P", "pin the selected lane to the top"],
	["M", "mark the time under the pointer, or remove the mark there"],
	["Shift and drag", "select a range"],
	["Shift and wheel", "scroll the lanes (also the wheel over their names)"],
	["/", "filter lanes"],
	["N", "while recording: keep what happens now in sight, or stop that"],
	["Esc", "clear the selection, then the range"],
	["Back (browser)", "undo a move"],
] as const;

export function Help({ theme, close }: { theme: Theme; close: () => void }) {
	const dialog = useRef<HTMLDialogElement>(null);
	useEffect(() => dialog.current?.showModal(), []);
	return (
		<dialog ref={dialog} onClose={close} aria-label="Help">
			<h2>Keys</h2>
			<table>
				<tbody>
					{KEYS.map(([keys, what]) => (
						<tr key={keys}>
							<th scope="row">{keys}</th>
							<td>{what}</td>
						</tr>
					))}
				</tbody>
			</table>
			<h2>Colours</h2>
			<p class="faint">CPUs and system calls have the colour of the thread or call; it is the same in every trace.</p>
			<ul class="legend">
				{CLASSES.filter((name) => name !== "other").map((name) => (
					<li key={name}>
						<svg width="14" height="14" aria-hidden="true">
							<rect width="14" height="14" rx="2" fill={css(theme.classes[name])} />
						</svg>
						{CLASS_NAMES[name]}
						{name === "unknown" && " (hatched)"}
					</li>
				))}
			</ul>
			<p>
				<button type="button" onClick={() => dialog.current?.close()}>
					Close
				</button>
			</p>
		</dialog>
	);
}
