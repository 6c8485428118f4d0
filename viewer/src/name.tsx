// SPDX-License-Identifier: MIT OR Apache-2.0
// The name of a lane beside the timeline, with what a hand can do to the lane.
import { useLayoutEffect, useRef } from "preact/hooks";
import { indentOf, type LaneRow } from "./rows";

interface Props {
	row: LaneRow;
	top: number;
	isSelected: boolean;
	isPinned: boolean;
	/** Absent: it has no system calls. */
	isOpen: boolean | null;
	select: () => void;
	pin: () => void;
	hide: () => void;
	open: () => void;
}

export function Name({ row, top, isSelected, isPinned, isOpen, select, pin, hide, open }: Props) {
	const place = useRef<HTMLLIElement>(null);
	useLayoutEffect(() => {
		// Not in the markup: the page's policy allows no style attributes.
		place.current!.style.transform = `translateY(${top}px)`;
		place.current!.style.height = `${row.height}px`;
		place.current!.style.paddingLeft = `${4 + indentOf(row)}px`;
	});
	return (
		<li ref={place} data-level={row.level} class={`name ${row.isInner ? "inner" : ""} ${isSelected ? "selected" : ""}`}>
			{isOpen === null ? (
				<span class="opener" />
			) : (
				<button type="button" class="opener" aria-expanded={isOpen} aria-label="System calls" onClick={open}>
					{isOpen ? "▾" : "▸"}
				</button>
			)}
			<button type="button" class="title" onClick={select} title={`${row.title} ${row.note}`}>
				<bdi>{row.title}</bdi> <small>{row.note}</small>
			</button>
			<button type="button" class="pin" aria-label="Hide this lane" title="Hide this lane (H)" onClick={hide}>
				×
			</button>
			{!row.isInner && (
				<button type="button" class="pin" aria-pressed={isPinned} aria-label="Pin to the top" onClick={pin}>
					{isPinned ? "★" : "☆"}
				</button>
			)}
		</li>
	);
}
