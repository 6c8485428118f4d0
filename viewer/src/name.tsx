// SPDX-License-Identifier: MIT OR Apache-2.0
// The name of a lane beside the timeline, with what a hand can do to the lane.
import { useMemo } from "preact/hooks";
import { useRowPlace } from "./rowplace";
import type { LaneRow } from "./rows";

interface Props {
	row: LaneRow;
	/** Below the first row. */
	top: number;
	isSelected: boolean;
	isPinned: boolean;
	/** Absent: it has no system calls. */
	isOpen: boolean | null;
	act: (what: "select" | "pin" | "hide" | "open", lane: number) => void;
}

export function Name({ row, top, isSelected, isPinned, isOpen, act }: Props) {
	const place = useRowPlace(row, top);
	const { id } = row.lane;
	// Not again for each lane while they are scrolled.
	return useMemo(
		() => (
			<li
				ref={place}
				data-level={row.level}
				class={`name ${row.isInner ? "inner" : ""} ${isSelected ? "selected" : ""}`}
			>
				{isOpen === null ? (
					<span class="opener" />
				) : (
					<button
						type="button"
						class="opener"
						aria-expanded={isOpen}
						aria-label="System calls"
						onClick={() => act("open", id)}
					>
						{isOpen ? "▾" : "▸"}
					</button>
				)}
				<button type="button" class="title" onClick={() => act("select", id)} title={`${row.title} ${row.note}`}>
					<bdi>{row.title}</bdi> <small>{row.note}</small>
				</button>
				<button
					type="button"
					class="pin"
					aria-label="Hide this lane"
					title="Hide this lane (H)"
					onClick={() => act("hide", id)}
				>
					×
				</button>
				{!row.isInner && (
					<button
						type="button"
						class="pin"
						aria-pressed={isPinned}
						aria-label="Pin to the top"
						onClick={() => act("pin", id)}
					>
						{isPinned ? "★" : "☆"}
					</button>
				)}
			</li>
		),
		[row, isSelected, isPinned, isOpen, act],
	);
}
