// SPDX-License-Identifier: MIT OR Apache-2.0
// Draws lanes of numbers as areas: what a column has on average, and above that, paler, how far a level went.

import type { Lane } from "./api";
import type { Part } from "./bands";
import { pixel, type Rgb, type Theme } from "./colours";
import { type Bins, binsOf, heightsOf, MEANINGS, scaleText, topOf } from "./counters";
import { type Found, type Strip, TILE_COLUMNS, type Tile } from "./tiles";

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
	add({ tile, strip }: Found, part: Part): void {
		const bins = stripBins(strip, tile);
		const { mean, high } = heightsOf(bins, this.meaning, tile.columnNs);
		const columns = part.columnsOf(tile);
		for (let index = 0; index < columns.length; index++) {
			const [x, column] = [part.left + index, columns[index]!];
			if (column < 0 || column >= TILE_COLUMNS) continue;
			this.mean[x] = mean[column]!;
			this.high[x] = high[column]!;
			this.unknown[x] = bins.unknown[column]! > 0.5 ? 1 : 0;
		}
	}

	/** The value of the top. */
	private get top(): number {
		let most = 0;
		for (let x = 0; x < this.mean.length; x++) if (!Number.isNaN(this.mean[x])) most = Math.max(most, this.high[x]!);
		return most;
	}

	/** What its top stands for; empty: it has no values. */
	get scale(): string {
		const most = this.top;
		return most > 0 ? scaleText(topOf(most, this.meaning.unit), this.meaning) : "";
	}

	/** The colours of a theme: of the average, and of how far a level went. */
	colours(theme: Theme): { solid: Rgb; pale: Rgb } {
		return { solid: this.meaning.colour, pale: mixed(this.meaning.colour, theme.background) };
	}

	/** Columns in which there is something: how high the average and the highest value are, in pixels of `room`. */
	*bars(room: number): Generator<{ x: number; mean: number; high: number; isUnknown: boolean }> {
		const scale = topOf(this.top, this.meaning.unit);
		// What is there at all is seen.
		const height = (value: number) => Math.max(1, Math.round((value / scale) * room));
		for (let x = 0; x < this.mean.length; x++) {
			const isThere = !Number.isNaN(this.mean[x]) && this.mean[x]! > 0;
			const isUnknown = this.unknown[x] === 1;
			const [mean, high] = isThere ? [height(this.mean[x]!), height(this.high[x]!)] : [0, 0];
			if (high > 0 || isUnknown) yield { x, mean, high, isUnknown };
		}
	}

	/** Draws it between two heights, of which those within a window are seen. */
	draw(pixels: Uint32Array, [top, bottom]: [number, number], [from, until]: [number, number], theme: Theme): void {
		const width = this.mean.length;
		const colours = this.colours(theme);
		const [solid, pale] = [pixel(colours.solid), pixel(colours.pale)];
		const unknown = pixel(theme.classes.unknown);
		for (const { x, mean, high, isUnknown } of this.bars(bottom - top)) {
			for (let y = from; y < until; y++) {
				const height = bottom - y;
				if (height <= mean) pixels[y * width + x] = solid;
				else if (height <= high) pixels[y * width + x] = pale;
				else if (isUnknown && ((x + y) & 7) <= 2) pixels[y * width + x] = unknown;
			}
		}
	}
}

const mixed = (one: Rgb, other: Rgb): Rgb => [
	Math.round((one[0] * 2 + other[0] * 3) / 5),
	Math.round((one[1] * 2 + other[1] * 3) / 5),
	Math.round((one[2] * 2 + other[2] * 3) / 5),
];
