// SPDX-License-Identifier: MIT OR Apache-2.0
// What lanes show, in tiles: level L has columns of 2^L ns, and a tile 512 of them. The server is asked for those that are seen, and no more for
// those that were seen before an answer came.

import { type Columns, type Labels, NO_ANSWER, type Part, type Pieces, Refused } from "./api";
import type { Bins } from "./counters";
import type { Handover } from "./flow";
import { part } from "./reply";

export const TILE_COLUMNS = 512;
const LEVEL_MAX = 52;
const TIME_MAX = 2n ** 63n - 1n;
/** Enough for a few screens: the oldest go. */
const TILES_MAX = 400;
const AT_ONCE = 4;
/** Of one answer: it is small, and the first lanes are seen before the last ones are there. */
const LANES_MAX = 20;
/** After a failure. */
const REST_MS = 2000;
/** A coarser tile stands for one that is not there yet. */
const COARSER_MAX = 8;

/** What one lane shows in a tile. */
export interface Strip {
	data: Columns | Pieces;
	labels: Labels;
	// Made when it is drawn first:
	/** Of a lane of numbers: its columns. */
	bins?: Bins;
	/** Of a CPU: where it goes from one lane to another. */
	handovers?: Handover[];
	/** Of its columns or pieces, and which are hatched. */
	colours?: { theme: string; pixels: Uint32Array; hatched: Uint8Array | null };
}

export interface Tile {
	level: number;
	index: number;
	/** From the beginning of the recording, in ns. */
	begin: number;
	columnNs: number;
	strips: Map<number, Strip>;
	/** Of a recording that grows: strips of an older generation are asked for again. */
	generations: Map<number, number>;
}

/** What a lane shows, and in which tile. */
export interface Found {
	tile: Tile;
	strip: Strip;
}

/** The strip of a lane in the first tile that has it. */
export function stripOf(tiles: readonly Tile[], lane: number): Found | null {
	for (const tile of tiles) {
		const strip = tile.strips.get(lane);
		if (strip) return { tile, strip };
	}
	return null;
}

/** What lanes show in a tile is wanted. */
interface Wanted {
	level: number;
	index: number;
	lanes: number[];
}

/** The server was asked for it. */
interface Asked extends Wanted {
	controller: AbortController;
}

/** The level whose columns are not narrower than a pixel. */
export const levelOf = (nsPerPixel: number): number =>
	Math.min(LEVEL_MAX, Math.max(0, Math.ceil(Math.log2(nsPerPixel) - 1e-9)));

export class Tiles {
	private readonly tiles = new Map<string, Tile>();
	private readonly asked = new Set<Asked>();
	private generation = 0;
	/** Before that, nothing is asked. */
	private restUntil = 0;
	private waiting: Wanted[] = [];

	constructor(
		private readonly recording: number,
		private readonly origin: bigint,
		private readonly changed: () => void,
		/** Why there is no answer; null: there is one again. */
		private readonly failed: (why: string | null) => void,
	) {}

	/** The recording has grown: what was seen is asked for again, and shown meanwhile. */
	refresh(): void {
		this.generation++;
	}

	/** Ends all requests. */
	close(): void {
		for (const { controller } of this.asked) controller.abort();
		this.asked.clear();
	}

	/** A tile, if it is there, and then coarser ones that cover it. */
	at(level: number, index: number): Tile[] {
		const tiles = [];
		for (let up = 0; up <= COARSER_MAX; up++) {
			const tile = this.tiles.get(`${level + up}/${Math.floor(index / 2 ** up)}`);
			if (tile) tiles.push(tile);
		}
		return tiles;
	}

	/** Asks for what is seen and not there; ends requests for what is seen no more. */
	want(level: number, first: number, last: number, lanes: number[]): void {
		this.waiting = [];
		for (let index = first; index <= last; index++) {
			const key = `${level}/${index}`;
			const tile = this.tiles.get(key);
			if (tile) {
				// The newest are at the end.
				this.tiles.delete(key);
				this.tiles.set(key, tile);
			}
			const missing = lanes.filter(
				(lane) => tile?.generations.get(lane) !== this.generation && !this.isAsked(level, index, lane),
			);
			for (let from = 0; from < missing.length; from += LANES_MAX) {
				this.waiting.push({ level, index, lanes: missing.slice(from, from + LANES_MAX) });
			}
		}
		for (const asked of this.asked) {
			if (asked.level === level && asked.index >= first && asked.index <= last) continue;
			asked.controller.abort();
			this.asked.delete(asked);
		}
		this.ask();
	}

	private isAsked(level: number, index: number, lane: number): boolean {
		for (const asked of this.asked) {
			if (asked.level === level && asked.index === index && asked.lanes.includes(lane)) return true;
		}
		return false;
	}

	private ask(): void {
		while (this.asked.size < AT_ONCE && performance.now() >= this.restUntil) {
			const next = this.waiting.shift();
			if (!next) return;
			void this.fetch(next);
		}
	}

	private async fetch({ level, index, lanes }: Wanted): Promise<void> {
		const columnNs = 2 ** level;
		const begin = index * columnNs * TILE_COLUMNS;
		const begins = this.origin + BigInt(begin);
		// Times have 64 bits: the last tile of a very long trace is not whole.
		const columns = Math.min(TILE_COLUMNS, Number((TIME_MAX - begins) / BigInt(columnNs)));
		if (columns < 1) return;
		const ends = begins + BigInt(columnNs) * BigInt(columns);
		const controller = new AbortController();
		const asked: Asked = { level, index, lanes, controller };
		this.asked.add(asked);
		const { generation } = this;
		try {
			const answer = await part(this.recording, lanes, begins, ends, columns, controller.signal);
			this.put({ level, index, begin, columnNs }, answer, generation, lanes);
			this.failed(null);
		} catch (error) {
			// It was given up: something else is asked for instead.
			if (controller.signal.aborted) return;
			this.failed(error instanceof Refused ? error.message : NO_ANSWER);
			// Not at once: whatever the reason is, it may be gone in a while.
			this.restUntil = performance.now() + REST_MS;
			setTimeout(this.changed, REST_MS);
		} finally {
			this.asked.delete(asked);
		}
		this.changed();
	}

	private put(
		place: Pick<Tile, "level" | "index" | "begin" | "columnNs">,
		answer: Part,
		generation: number,
		lanes: number[],
	): void {
		const key = `${place.level}/${place.index}`;
		const tile: Tile = this.tiles.get(key) ?? { ...place, strips: new Map(), generations: new Map() };
		for (const lane of lanes) tile.generations.set(lane, generation);
		for (const [lane, data] of answer.lanes) tile.strips.set(lane, { data, labels: answer.labels });
		this.tiles.delete(key);
		this.tiles.set(key, tile);
		for (const oldest of this.tiles.keys()) {
			if (this.tiles.size <= TILES_MAX) break;
			this.tiles.delete(oldest);
		}
	}
}
