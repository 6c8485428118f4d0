// SPDX-License-Identifier: MIT OR Apache-2.0
// What is said beside the pointer, always within the window.
import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";

export function Tip({ x, y, children }: { x: number; y: number; children: ComponentChildren }) {
	const box = useRef<HTMLDivElement>(null);
	useLayoutEffect(() => {
		const { offsetWidth, offsetHeight } = box.current!;
		const left = Math.min(x + 14, innerWidth - offsetWidth - 8);
		const above = y + 18 + offsetHeight > innerHeight;
		box.current!.style.transform = `translate(${left}px, ${above ? y - offsetHeight - 10 : y + 18}px)`;
	});
	return (
		<div class="tip" ref={box} role="tooltip">
			{children}
		</div>
	);
}
