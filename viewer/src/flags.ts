// SPDX-License-Identifier: MIT OR Apache-2.0
// Notes as they are drawn on the axis and the overview: a flag where each begins, and a line as long as it.
import type { Note } from "./notes";
import type { Span } from "./timeline";

/** CSS pixels. */
const FLAG_WIDTH = 9;
const FLAG_HEIGHT = 7;

/** In a strip of a canvas, whose pixels are given. */
export function drawFlags(
	context: CanvasRenderingContext2D | OffscreenCanvasRenderingContext2D,
	notes: readonly Note[],
	span: Span,
	strip: { width: number; height: number; scale: number; colour: string },
): void {
	const { width, height, scale, colour } = strip;
	const x = (ns: number) => ((ns - span.begin) / (span.end - span.begin)) * width;
	context.fillStyle = colour;
	for (const note of notes) {
		const [left, right] = [x(note.begin), x(note.end)];
		if (right < -FLAG_WIDTH * scale || left > width) continue;
		const from = Math.max(0, Math.round(left));
		if (right > left) context.fillRect(from, height - 3 * scale, Math.min(width, right) - from, 2 * scale);
		if (left < 0) continue;
		context.fillRect(from, 0, Math.max(1, scale), height - scale);
		context.beginPath();
		context.moveTo(from, 0);
		context.lineTo(from + FLAG_WIDTH * scale, (FLAG_HEIGHT / 2) * scale);
		context.lineTo(from, FLAG_HEIGHT * scale);
		context.fill();
	}
}

/** The note whose flag or line is at a place of a strip, all in CSS pixels; of several, the one that begins last. */
export function flagAt(notes: readonly Note[], span: Span, width: number, x: number): number {
	const place = (ns: number) => ((ns - span.begin) / (span.end - span.begin)) * width;
	return notes.findLastIndex(({ begin, end }) => {
		const left = place(begin);
		return x >= left - 2 && x <= Math.max(left + FLAG_WIDTH, place(end));
	});
}
