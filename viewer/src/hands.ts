// SPDX-License-Identifier: MIT OR Apache-2.0
// What hands do to the timeline: drag, pinch and turn wheels.
import type { RefObject } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { Pinch } from "./pinch";
import type { Span } from "./timeline";

/** What is seen, and what hands can change about it. */
interface Meant {
	span: Span;
	/** Pixels (CSS) of rows above the first that is seen. */
	top: number;
	scroll: (top: number) => void;
	move: (span: Span) => void;
	/** Around a place, as a part of the width. */
	zoom: (factor: number, place: number) => void;
	/** By a part of what is seen. */
	pan: (part: number) => void;
	range: (range: Span) => void;
	/** A place of the canvas was pressed, and not dragged. */
	press: (x: number, y: number) => void;
}

interface Drag {
	x: number;
	y: number;
	span: Span;
	scroll: number;
	isRange: boolean;
	hasMoved: boolean;
}

/** On the canvas, and in the window. */
export interface Pointer {
	x: number;
	y: number;
	clientX: number;
	clientY: number;
}

interface Hands {
	/** Absent: it is elsewhere, or drags. */
	pointer: Pointer | null;
	/** The element with the names of lanes and the canvas, where wheels turn. */
	stage: RefObject<HTMLDivElement | null>;
	/** What the canvas listens to. */
	on: Record<
		"onPointerDown" | "onPointerMove" | "onPointerUp" | "onPointerCancel" | "onPointerLeave",
		(event: PointerEvent) => void
	>;
}

export function useHands(canvas: RefObject<HTMLCanvasElement | null>, meant: Meant): Hands {
	const { span, top, scroll, move, zoom, pan, range, press } = meant;
	const [pointer, setPointer] = useState<Pointer | null>(null);
	const drag = useRef<Drag | null>(null);
	const pinch = useRef(new Pinch());

	const wheel = useRef((_: WheelEvent) => {});
	wheel.current = (event) => {
		event.preventDefault();
		const box = canvas.current!.getBoundingClientRect();
		const lines = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? 16 : 1;
		const isOnNames = event.clientX < box.left;
		if (event.shiftKey || isOnNames) {
			scroll(top + (event.deltaY + (isOnNames ? 0 : event.deltaX)) * lines);
		} else if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
			pan((event.deltaX * lines) / box.width);
		} else {
			zoom(1.0015 ** (event.deltaY * lines * (event.ctrlKey ? 6 : 1)), (event.clientX - box.left) / box.width);
		}
	};
	const stage = useRef<HTMLDivElement>(null);
	useEffect(() => {
		const element = stage.current!;
		const turned = (event: WheelEvent) => wheel.current(event);
		element.addEventListener("wheel", turned, { passive: false });
		return () => element.removeEventListener("wheel", turned);
	}, []);

	const place = (event: PointerEvent) => {
		const box = canvas.current!.getBoundingClientRect();
		return { x: event.clientX - box.left, y: event.clientY - box.top, width: box.width };
	};
	const at = (x: number, width: number) => span.begin + ((span.end - span.begin) * x) / width;
	const down = (event: PointerEvent) => {
		if (event.button !== 0) return;
		const { x, y } = place(event);
		canvas.current!.setPointerCapture(event.pointerId);
		pinch.current.down(event.pointerId, x, canvas.current!.clientWidth, span);
		if (pinch.current.isOn) {
			drag.current = null;
			return;
		}
		drag.current = { x, y, span, scroll: top, isRange: event.shiftKey, hasMoved: false };
	};
	const moved = (event: PointerEvent) => {
		const { x, y, width } = place(event);
		const pinched = pinch.current.moved(event.pointerId, x, width);
		if (pinched) {
			move(pinched);
			return;
		}
		const now = drag.current;
		if (!now) {
			setPointer({ x, y, clientX: event.clientX, clientY: event.clientY });
			return;
		}
		now.hasMoved ||= Math.abs(x - now.x) + Math.abs(y - now.y) > 3;
		if (!now.hasMoved) return;
		setPointer(null);
		if (now.isRange) {
			const [one, other] = [at(now.x, width), at(x, width)];
			range({ begin: Math.min(one, other), end: Math.max(one, other, Math.min(one, other) + 1) });
			return;
		}
		const by = ((now.span.end - now.span.begin) * (now.x - x)) / width;
		move({ begin: now.span.begin + by, end: now.span.end + by });
		scroll(now.scroll + now.y - y);
	};
	const up = (event: PointerEvent) => {
		const now = drag.current;
		pinch.current.up(event.pointerId);
		drag.current = null;
		if (!now || now.hasMoved) return;
		const { x, y } = place(event);
		press(x, y);
	};
	const cancel = (event: PointerEvent) => {
		pinch.current.up(event.pointerId);
		drag.current = null;
	};
	const on = {
		onPointerDown: down,
		onPointerMove: moved,
		onPointerUp: up,
		onPointerCancel: cancel,
		onPointerLeave: () => setPointer(null),
	};
	return { pointer, stage, on };
}
