// SPDX-License-Identifier: MIT OR Apache-2.0
// What is said beside the pointer, always within the window.
import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";

export function Tip({ x, y, children }: { x: number; y: number; children: ComponentChildren }) {
	const box = useRef<HTMLDivElement>(null);
	useLayoutEffect(() => {
		// In percent of the box itself: its size is not asked for, since then all of the page would be laid out at once. Where there is no room
		// below the pointer, it is above.
		const left = `min(${x + 14}px, 100vw - 100% - 8px)`;
		const lacks = `(${y + 18}px + 100% - 100vh) * 10000`;
		box.current!.style.transform = `translate(${left}, calc(${y + 18}px - clamp(0px, ${lacks}, 100% + 28px)))`;
	}, [x, y]);
	return (
		<div class="tip" ref={box} role="tooltip">
			{children}
		</div>
	);
}
