// SPDX-License-Identifier: MIT OR Apache-2.0
// How lanes are grouped, ordered and hidden: the menu above their names, and the headings of groups.
import { useEffect, useMemo, useRef } from "preact/hooks";
import { GROUPINGS, HEIGHTS, ORDERS, type Shown, VIEWS } from "./address";
import { useRowPlace } from "./rowplace";
import type { Heading } from "./rows";

const NAMES = {
	group: { process: "Process", tree: "Process tree", cgroup: "Control group", user: "User", none: "None" },
	order: { busy: "Busy time", name: "Name", id: "ID", first: "First appearance" },
	view: { states: "States", flow: "Control flow" },
	height: { compact: "Compact", normal: "Normal", tall: "Tall" },
} as const;

interface MenuProps {
	shown: Shown;
	show: (change: Partial<Shown>) => void;
	/** Groups that can be closed. */
	keys: string[];
}

export function LanesMenu({ shown, show, keys }: MenuProps) {
	const menu = useRef<HTMLDetailsElement>(null);
	useEffect(() => {
		const pressed = (event: PointerEvent) => {
			if (!menu.current!.contains(event.target as Node)) menu.current!.open = false;
		};
		addEventListener("pointerdown", pressed);
		return () => removeEventListener("pointerdown", pressed);
	}, []);
	const hidden = shown.hidden.length + shown.hiddenGroups.length;
	const close = (event: KeyboardEvent) => {
		if (event.key !== "Escape" || !menu.current!.open) return;
		// The selection stays.
		event.stopPropagation();
		menu.current!.open = false;
		menu.current!.querySelector("summary")!.focus();
	};
	return (
		<details class="lanes-menu" ref={menu} onKeyDown={close}>
			<summary title="Group, order and hide lanes (G)">View{hidden > 0 && <small> {hidden} hidden</small>}</summary>
			<div>
				<Choice title="Show" of="view" all={VIEWS} shown={shown} show={show} />
				<Choice title="Group by" of="group" all={GROUPINGS} shown={shown} show={show} />
				<Choice title="Order by" of="order" all={ORDERS} shown={shown} show={show} />
				<Choice title="Row height" of="height" all={HEIGHTS} shown={shown} show={show} />
				<p class="buttons">
					<button type="button" disabled={keys.length === 0} onClick={() => show({ closed: keys })}>
						Collapse all
					</button>
					<button type="button" disabled={shown.closed.length === 0} onClick={() => show({ closed: [] })}>
						Expand all
					</button>
					<button type="button" disabled={hidden === 0} onClick={() => show({ hidden: [], hiddenGroups: [] })}>
						Show hidden lanes
					</button>
				</p>
			</div>
		</details>
	);
}

interface ChoiceProps<Of extends keyof typeof NAMES> {
	title: string;
	of: Of;
	all: readonly Shown[Of][];
	shown: Shown;
	show: MenuProps["show"];
}

function Choice<Of extends keyof typeof NAMES>({ title, of, all, shown, show }: ChoiceProps<Of>) {
	return (
		<label>
			{title}
			<select value={shown[of]} onChange={(event) => show({ [of]: event.currentTarget.value })}>
				{all.map((one) => (
					<option key={one} value={one}>
						{(NAMES[of] as Record<string, string>)[one]}
					</option>
				))}
			</select>
		</label>
	);
}

interface HeadingProps {
	row: Heading;
	/** Below the first row. */
	top: number;
	/** Of the recording, in ns. */
	length: number;
	act: (what: "turn" | "hide", key: string) => void;
}

/** Above the lanes of a group. */
export function GroupHeading({ row, top, length, act }: HeadingProps) {
	const place = useRowPlace(row, top);
	// Not again for each group while lanes are scrolled.
	return useMemo(() => {
		const { key, title, note, count, cpuNs, isClosed, level } = row;
		const share = (cpuNs / length) * 100;
		const rounded = share < 0.1 ? "<0.1" : share.toFixed(share >= 9.95 ? 0 : 1);
		const busy = cpuNs === 0 ? "" : `${rounded} %`;
		const about = `${title} ${note}: ${count} ${count === 1 ? "lane" : "lanes"}${busy && `, CPU time ${busy} of the recording`}`;
		return (
			<li ref={place} data-level={level} class="heading">
				<button type="button" class="title" aria-expanded={!isClosed} onClick={() => act("turn", key)} title={about}>
					<span class="opener" aria-hidden="true">
						{isClosed ? "▸" : "▾"}
					</span>
					<bdi>{title}</bdi> <small>{note}</small>
				</button>
				<small>{[isClosed && count, busy].filter(Boolean).join(" · ")}</small>
				<button
					type="button"
					class="pin"
					aria-label={`Hide ${title}`}
					title="Hide this group"
					onClick={() => act("hide", key)}
				>
					×
				</button>
			</li>
		);
	}, [row, length, act]);
}
