// SPDX-License-Identifier: MIT OR Apache-2.0
import { useEffect, useRef } from "preact/hooks";
import { CLASS_NAMES, CLASSES, css, type Theme } from "./colours";
import { COMMANDS, keyName } from "./commands";
import { ICON_NAMES, ICON_SIZE, ICONS } from "./icons";

const GESTURES = [
	["Shift and drag", "select a range"],
	["Shift and wheel", "scroll the lanes (or use the wheel over their names)"],
	["Back (browser)", "undo a move"],
] as const;
const KEYS = COMMANDS.filter(({ keys }) => keys.length > 0).map(
	({ keys, what }) => [keys.map(keyName).join(", "), what] as const,
);

export function Help({ theme, close }: { theme: Theme; close: () => void }) {
	const dialog = useRef<HTMLDialogElement>(null);
	useEffect(() => {
		dialog.current!.showModal();
		// Its button has got the focus, and is at the end.
		dialog.current!.focus();
		dialog.current!.scrollTop = 0;
	}, []);
	return (
		<dialog ref={dialog} onClose={close} class="help" aria-label="Help" tabIndex={-1}>
			<h2>Keys</h2>
			<table>
				<tbody>
					{[...KEYS, ...GESTURES].map(([keys, what]) => (
						<tr key={keys}>
							<th scope="row">{keys}</th>
							<td>{what}</td>
						</tr>
					))}
				</tbody>
			</table>
			<h2>Colours</h2>
			<p class="faint">
				On CPU and system call lanes, each thread or call has its own colour, which is the same in every trace.
			</p>
			<ul class="legend">
				{CLASSES.filter((name) => name !== "other" && name !== "value").map((name) => (
					<li key={name}>
						<svg width="14" height="14" aria-hidden="true">
							<rect width="14" height="14" rx="2" fill={css(theme.classes[name])} />
						</svg>
						{CLASS_NAMES[name]}
						{name === "unknown" && " (hatched)"}
					</li>
				))}
			</ul>
			<h2>Icons</h2>
			<p class="faint">Where there is room, control flow (V) shows icons for what a thread begins to do.</p>
			<ul class="legend">
				{ICON_NAMES.map((name) => (
					<li key={name}>
						<svg width="14" height="14" viewBox={`-2 -2 ${ICON_SIZE + 4} ${ICON_SIZE + 4}`} aria-hidden="true">
							<path d={ICONS[name].path} fill={css(theme.text)} fill-rule="evenodd" />
						</svg>
						{ICONS[name].what}
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
