// SPDX-License-Identifier: MIT OR Apache-2.0
// All that one can do with a key or from the palette. The keys, the help and the palette come from this list; the part of the page that knows how
// to do something says so with useCommands, for as long as it is shown.
import { useEffect, useRef } from "preact/hooks";

export interface Command {
	readonly id: string;
	/** As keyOf names them; the first is the one to remember. */
	readonly keys: readonly string[];
	readonly what: string;
}

export const COMMANDS = [
	{ id: "palette", keys: ["Ctrl+Shift+P", "Ctrl+K"], what: "show all commands" },
	{ id: "insights", keys: ["1"], what: "open the Insights page" },
	{ id: "timeline", keys: ["2"], what: "open the Timeline page" },
	{ id: "events", keys: ["3"], what: "open the Events page" },
	{ id: "statistics", keys: ["4"], what: "open the Statistics page" },
	{ id: "sql", keys: ["5"], what: "open the SQL page" },
	{ id: "compare", keys: ["6"], what: "compare with another trace" },
	{ id: "zoom-in", keys: ["W"], what: "zoom in (or use the wheel, or pinch)" },
	{ id: "zoom-out", keys: ["S"], what: "zoom out" },
	{ id: "left", keys: ["A"], what: "move left (or drag)" },
	{ id: "right", keys: ["D"], what: "move right" },
	{ id: "fit", keys: ["F"], what: "fit the selection, the range, or everything" },
	{ id: "above", keys: ["ArrowUp"], what: "select the lane above" },
	{ id: "below", keys: ["ArrowDown"], what: "select the lane below" },
	{ id: "next", keys: ["."], what: "select the next piece in the lane" },
	{ id: "previous", keys: [","], what: "select the previous piece in the lane" },
	{ id: "waker", keys: ["["], what: "go to the thread that ended the selected wait, or created the selected thread" },
	{ id: "woken", keys: ["]"], what: "go to the thread that the selected one wakes next" },
	{ id: "calls", keys: ["Enter"], what: "show or hide the system calls of the selected thread" },
	{ id: "hide", keys: ["H"], what: "hide the selected lane" },
	{ id: "group", keys: ["O"], what: "collapse or expand the group of the selected lane" },
	{ id: "view", keys: ["V"], what: "show control flow (threads as lines, and switches between them), or states again" },
	{ id: "arrange", keys: ["G"], what: "open the View menu: group and order lanes, and set the row height" },
	{ id: "pin", keys: ["P"], what: "pin the selected lane to the top, or unpin it" },
	{ id: "mark", keys: ["M"], what: "mark the time under the pointer, or remove the mark there" },
	{ id: "now", keys: ["L"], what: "while recording: keep the present at the right edge, or no longer keep it there" },
	{ id: "other", keys: ["T"], what: "while comparing: go to the other timeline" },
	{ id: "align", keys: ["Y"], what: "while comparing: align the selected pieces, or else the last marks" },
	{ id: "range", keys: ["R"], what: "make the selected piece, or the visible part, the range" },
	{ id: "filter", keys: ["/"], what: "filter lanes" },
	{ id: "search", keys: ["Ctrl+F"], what: "search for pieces and events" },
	{ id: "next-match", keys: ["N", "F3"], what: "go to the next match" },
	{ id: "previous-match", keys: ["Shift+N", "Shift+F3"], what: "go to the previous match" },
	{ id: "note", keys: ["C"], what: "write a note on the selection or the range" },
	{ id: "notes", keys: ["Shift+C"], what: "list the notes" },
	{ id: "export", keys: ["X"], what: "export the view or the range" },
	{ id: "clear", keys: ["Escape"], what: "clear the selection, then the range" },
	{ id: "theme", keys: [], what: "switch between dark and light" },
	{ id: "help", keys: ["?"], what: "show the keys and colours" },
] as const satisfies readonly Command[];
export type CommandId = (typeof COMMANDS)[number]["id"];

type Acts = Partial<Record<CommandId, () => void>>;
/** Those that are shown, the latest at the end. */
const shown: { current: Acts }[] = [];

/** What this part of the page can do. */
export function useCommands(acts: Acts): void {
	const own = useRef(acts);
	own.current = acts;
	useEffect(() => {
		shown.push(own);
		return () => {
			shown.splice(shown.indexOf(own), 1);
		};
	}, []);
}

/** How a command is done now; undefined: nothing that is shown can do it. */
export const actOf = (id: CommandId): (() => void) | undefined =>
	shown.findLast(({ current }) => current[id])?.current[id];

type Pressed = Pick<KeyboardEvent, "key" | "ctrlKey" | "metaKey" | "altKey" | "shiftKey">;

/** `Ctrl+Shift+P`. Shift is part of signs such as `?`. */
export function keyOf({ key, ctrlKey, metaKey, altKey, shiftKey }: Pressed): string {
	const isSign = key.length === 1 && key.toLowerCase() === key.toUpperCase();
	const name = key.length === 1 ? key.toUpperCase() : key;
	const parts = [(ctrlKey || metaKey) && "Ctrl", altKey && "Alt", shiftKey && !isSign && "Shift", name];
	return parts.filter(Boolean).join("+");
}

const NAMES: Record<string, string> = { ArrowUp: "↑", ArrowDown: "↓", Escape: "Esc" };

/** As people read it: `Ctrl-Shift-P`. */
export const keyName = (key: string): string =>
	key
		.split("+")
		.map((part) => NAMES[part] ?? part)
		.join("-");

/** Does the command of a key. */
export function press(event: KeyboardEvent): void {
	// Also in a shadow tree, as that of an editor.
	const [target] = event.composedPath();
	const key = keyOf(event);
	const isTyping =
		target instanceof HTMLInputElement ||
		target instanceof HTMLTextAreaElement ||
		target instanceof HTMLSelectElement ||
		(target instanceof HTMLElement && target.isContentEditable);
	if ((isTyping && !key.startsWith("Ctrl+")) || document.querySelector("dialog[open]")) return;
	// A button does what it does.
	if (key === "Enter" && target instanceof HTMLElement && target.matches("button, a, summary")) return;
	const command = COMMANDS.find(({ keys }) => (keys as readonly string[]).includes(key));
	const act = command && actOf(command.id);
	if (!act) return;
	event.preventDefault();
	act();
}
