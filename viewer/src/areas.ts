// SPDX-License-Identifier: MIT OR Apache-2.0
// Draws lanes of numbers as areas: what a column has on average, and above that, paler, how far a level went.

import type { Lane } from "./api";
import { pixel, type Rgb, type Theme } from "./colours";
import { type Bins, binsOf, heightsOf, MEANINGS, scaleText, topOf } from "./counters";
import { type Strip, TILE_COLUMNS, type Tile } from "./tiles";

/** A part of the picture that a tile covers, in pixels. */
interface Part {
	left: number;
	right: number;
	begin: number;
	nsPerPixel: number;
}

/** The columns of a strip, computed when they are needed first. */
export function stripBins(strip: Strip, tile: Tile): Bins {
	strip.bins ??= binsOf(strip.data, TILE_COLUMNS, tile.columnNs);
	return strip.bins;
}

/** The area of a lane, a pixel column at a time. */
export class Area {
	private readonly mean: Float64Array;
	private readonly high: Float64Array;
	private readonly unknown: Uint8Array;

	constructor(
		private readonly lane: Lane,
		width: number,
	) {
		this.mean = new Float64Array(width).fill(Number.NaN);
		this.high = new Float64Array(width);
		this.unknown = new Uint8Array(width);
	}

	private get meaning() {
		return MEANINGS[this.lane.quantity!];
	}

	/** Takes what a tile has. */
	add({ tile, strip }: { tile: Tile; strip: Strip }, { left, right, begin, nsPerPixel }: Part): void {
		const bins = stripBins(strip, tile);
		const { mean, high } = heightsOf(bins, this.meaning, tile.columnNs);
		for (let x = left; x < right; x++) {
			const column = Math.floor((begin + (x + 0.5) * nsPerPixel - tile.begin) / tile.columnNs);
			if (column < 0 || column >= TILE_COLUMNS) continue;
			this.mean[x] = mean[column]!;
			this.high[x] = high[column]!;
			this.unknown[x] = bins.unknown[column]! > 0.5 ? 1 : 0;
		}
	}

	/** Draws it between two heights, of which those within a window are seen; says what its top stands for. */
	draw(pixels: Uint32Array, [top, bottom]: [number, number], [from, until]: [number, number], theme: Theme): string {
		const width = this.mean.length;
		let most = 0;
		for (let x = 0; x < width; x++) if (!Number.isNaN(this.mean[x])) most = Math.max(most, this.high[x]!);
		const scale = topOf(most, this.meaning.unit);
		const { colour } = this.meaning;
		const [solid, pale] = [pixel(colour), pixel(mixed(colour, theme.background))];
		const unknown = pixel(theme.classes.unknown);
		const room = bottom - top;
		for (let x = 0; x < width; x++) {
			const isKnown = !Number.isNaN(this.mean[x]);
			// What is there at all is seen.
			const high = isKnown && this.mean[x]! > 0 ? Math.max(1, Math.round((this.high[x]! / scale) * room)) : 0;
			const mean = isKnown && this.mean[x]! > 0 ? Math.max(1, Math.round((this.mean[x]! / scale) * room)) : 0;
			if (high === 0 && this.unknown[x] === 0) continue;
			for (let y = from; y < until; y++) {
				const height = bottom - y;
				if (height <= mean) pixels[y * width + x] = solid;
				else if (height <= high) pixels[y * width + x] = pale;
				else if (this.unknown[x] === 1 && ((x + y) & 7) <= 2) pixels[y * width + x] = unknown;
			}
		}
		return most > 0 ? scaleText(scale, this.meaning) : "";
	}
}

const mixed = (one: Rgb, other: Rgb): Rgb => [
	Math.round((one[0] * 2 + other[0] * 3) / 5),
	Math.round((one[1] * 2 + other[1] * 3) / 5),
	Math.round((one[2] * 2 + other[2] * 3) / 5),
];
