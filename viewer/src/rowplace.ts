// SPDX-License-Identifier: MIT OR Apache-2.0
// Where rows are in the list of names.
import type { RefObject } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import { indentOf, type Row } from "./rows";

/** Puts an element where a row is: so far (CSS pixels) below the first one. Not in the markup: the page's policy allows no style attributes. */
export function useRowPlace(row: Row, top: number): RefObject<HTMLLIElement | null> {
	const element = useRef<HTMLLIElement>(null);
	useLayoutEffect(() => {
		const { style } = element.current!;
		style.transform = `translateY(${top}px)`;
		style.height = `${row.height}px`;
		style.paddingLeft = `${4 + indentOf(row)}px`;
	}, [row, top]);
	return element;
}
