// SPDX-License-Identifier: MIT OR Apache-2.0
// Two fingers on the timeline: the times under them stay under them, so it is zoomed and moved.
import type { Span } from "./timeline";

/** Fingers that are closer cannot be told from one (CSS pixels). */
const APART_MIN = 12;

interface Finger {
	id: number;
	x: number;
	/** The time under it. */
	at: number;
}

export class Pinch {
	private fingers: Finger[] = [];

	get isOn(): boolean {
		return this.fingers.length === 2;
	}

	/** A finger, or the mouse, is put down. */
	down(id: number, x: number, width: number, { begin, end }: Span): void {
		if (this.isOn) return;
		const at = (place: number) => begin + ((end - begin) * place) / width;
		// The first may have moved since.
		this.fingers = [...this.fingers, { id, x, at: 0 }].map((finger) => ({ ...finger, at: at(finger.x) }));
	}

	/** What is seen now that a finger has moved; null: there are not two. */
	moved(id: number, x: number, width: number): Span | null {
		for (const finger of this.fingers) if (finger.id === id) finger.x = x;
		const [left, right] = this.fingers.toSorted((one, other) => one.at - other.at);
		if (!left || !right) return null;
		const nsPerPixel = (right.at - left.at) / Math.max(APART_MIN, right.x - left.x);
		const begin = left.at - left.x * nsPerPixel;
		return nsPerPixel > 0 ? { begin, end: begin + nsPerPixel * width } : null;
	}

	up(id: number): void {
		this.fingers = this.fingers.filter((finger) => finger.id !== id);
	}
}
