// SPDX-License-Identifier: MIT OR Apache-2.0
// All commands that can be done now, with their keys: type a part of one's text, and press Enter.
import { useEffect, useRef, useState } from "preact/hooks";
import { actOf, COMMANDS, type Command, type CommandId, keyName } from "./commands";

export function Palette({ close }: { close: () => void }) {
	const dialog = useRef<HTMLDialogElement>(null);
	const list = useRef<HTMLDivElement>(null);
	const [typed, type] = useState("");
	const [place, setPlace] = useState(0);
	useEffect(() => dialog.current?.showModal(), []);
	const words = typed.toLowerCase().split(/\s+/).filter(Boolean);
	const found = COMMANDS.filter(
		({ id, what }) => id !== "palette" && actOf(id) && words.every((word) => what.toLowerCase().includes(word)),
	);
	const chosen = Math.min(place, found.length - 1);
	useEffect(() => list.current?.children[chosen]?.scrollIntoView({ block: "nearest" }), [chosen]);
	const run = (id: string | undefined) => {
		const act = id && actOf(id as CommandId);
		if (!act) return;
		// What it focuses must not be taken back by the dialog.
		dialog.current?.close();
		act();
	};
	const pressed = (event: KeyboardEvent) => {
		const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
		if (by) setPlace((chosen + by + found.length) % Math.max(1, found.length));
		else if (event.key === "Enter") run(found[chosen]?.id);
		else return;
		event.preventDefault();
	};
	return (
		<dialog ref={dialog} class="palette" onClose={close} aria-label="Commands">
			<input
				type="text"
				role="combobox"
				aria-expanded="true"
				aria-controls="commands"
				aria-activedescendant={found[chosen] ? `command-${found[chosen].id}` : undefined}
				aria-label="Command"
				placeholder="Type a command"
				value={typed}
				onInput={(event) => {
					type(event.currentTarget.value);
					setPlace(0);
				}}
				onKeyDown={pressed}
			/>
			<div id="commands" role="listbox" aria-label="Commands" ref={list}>
				{found.map(({ id, keys, what }: Command, index) => (
					<button
						key={id}
						id={`command-${id}`}
						type="button"
						role="option"
						tabIndex={-1}
						aria-selected={index === chosen}
						onClick={() => run(id)}
					>
						{what}
						{keys[0] && <kbd>{keyName(keys[0])}</kbd>}
					</button>
				))}
			</div>
			{found.length === 0 && <p class="faint">No matching commands.</p>}
		</dialog>
	);
}
