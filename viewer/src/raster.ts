// SPDX-License-Identifier: MIT OR Apache-2.0
// The pixels of the picture. Bands are put into them from the top down, and whatever is between them is background: so each pixel is written once
// a frame.

import type { Band } from "./bands";
import { pixel, type Theme } from "./colours";

/** What is hatched is the same in every so many rows. */
const PERIOD = 8;

/** A vertical line. */
export interface Line {
	x: number;
	top: number;
	bottom: number;
}

export class Raster {
	readonly pixels: Uint32Array;
	readonly width: number;
	readonly height: number;
	private theme: Theme | null = null;
	/** The first row that is not written yet. */
	private next = 0;

	constructor(private readonly image: ImageData) {
		this.pixels = new Uint32Array(image.data.buffer);
		this.width = image.width;
		this.height = image.height;
	}

	begin(theme: Theme): void {
		this.theme = theme;
		this.next = 0;
	}

	/** Puts a band, or what is seen of it below `top`; it is not above the one before. */
	band(band: Band, top: number): void {
		const { width, height } = this;
		const [from, until] = [Math.max(band.top, top), Math.min(band.bottom, height)];
		if (until <= from) return;
		if (band.area) {
			this.leave(until);
			band.area.draw(this.pixels, [band.top, band.bottom], [from, until], this.theme!);
			return;
		}
		this.leave(from);
		const own = Math.min(until, from + (band.isHatched ? PERIOD : 1));
		for (let y = from; y < own; y++) {
			this.pixels.set(band.line, y * width);
			if (band.isHatched) this.hatch(band.hatched, y);
		}
		// Each time twice as many rows: fewer and larger copies.
		for (let done = own - from; from + done < until; done *= 2) {
			const more = Math.min(done, until - from - done);
			this.pixels.copyWithin((from + done) * width, from * width, (from + more) * width);
		}
		this.next = until;
	}

	/** After the last band. */
	end(): void {
		this.leave(this.height);
	}

	line({ x, top, bottom }: Line, thickness: number, colour: number): void {
		const right = Math.min(this.width, x + thickness);
		const end = Math.min(Math.round(bottom), this.height);
		for (let y = Math.max(0, Math.round(top)); y < end; y++) {
			this.pixels.fill(colour, y * this.width + x, y * this.width + right);
		}
	}

	show(context: OffscreenCanvasRenderingContext2D): void {
		context.putImageData(this.image, 0, 0);
	}

	/** There is nothing up to a row. */
	private leave(until: number): void {
		this.pixels.fill(pixel(this.theme!.background), this.next * this.width, until * this.width);
		this.next = until;
	}

	private hatch(hatched: Uint8Array, y: number): void {
		const { width, pixels } = this;
		const back = pixel(this.theme!.background);
		for (let x = 0; x < width; x++) {
			if (hatched[x] === 1 && ((x + y) & (PERIOD - 1)) > 2) pixels[y * width + x] = back;
		}
	}
}
