// SPDX-License-Identifier: MIT OR Apache-2.0
// Draws the picture of one timeline beside the page's own thread, and asks the server for what is seen: so what a hand does is never late for that.
import type { Theme } from "./colours";
import { pngOf, svgOf } from "./drawing";
import type { Answer, Asked, Began, Told } from "./painter";
import { type NamesData, namesOf } from "./rows";
import { Tiles } from "./tiles";
import { Picture, type Scene, type Size } from "./timeline";

/** Pictures with what replies have added are so far apart; a hand that moves meanwhile shows it earlier. */
const REPLIES_MS = 16;

/** The thread itself, as far as it is needed: the types of workers do not go together with those of pages. */
interface Thread {
	postMessage(answer: Answer): void;
}

const tell = (answer: Answer) => (self as Thread).postMessage(answer);

class Painter {
	private readonly tiles: Tiles;
	private readonly picture: Picture;
	private scene: Scene;
	private theme: Theme;
	private size: Size;
	private soon = 0;
	private later = 0;
	/** A reply came since it was drawn. */
	private hasMore = false;
	private hasFailed = false;

	constructor({ canvas, recording, origin, scene, theme, size, names }: Began) {
		const more = () => {
			this.hasMore = true;
			this.later ||= setTimeout(() => this.draw(), REPLIES_MS);
		};
		this.tiles = new Tiles(recording, origin, more, (why) => this.failed(why));
		this.picture = new Picture(canvas, this.tiles, namesOf(names));
		[this.scene, this.theme, this.size] = [scene, theme, size];
		this.redraw();
	}

	name(names: NamesData): void {
		this.picture.names = namesOf(names);
		this.redraw();
	}

	show({ scene, theme, size }: NonNullable<Told["show"]>): void {
		this.scene = { ...this.scene, ...scene };
		[this.theme, this.size] = [theme ?? this.theme, size ?? this.size];
		this.redraw();
	}

	refresh(): void {
		this.tiles.refresh();
		this.redraw();
	}

	/** After what the page has told meanwhile: it may be faster than this. */
	private redraw(): void {
		this.soon ||= setTimeout(() => this.draw());
	}

	private draw(): void {
		clearTimeout(this.soon);
		clearTimeout(this.later);
		this.soon = 0;
		this.later = 0;
		this.picture.draw(this.scene, this.theme, this.size);
		if (this.hasMore) tell({ hasMore: true });
		this.hasMore = false;
	}

	async answer({ number, hit, picture }: Asked): Promise<void> {
		// What is asked about is what the page has told last.
		if (this.soon) this.draw();
		const { scene, theme, size } = this;
		try {
			if (hit) tell({ number, found: this.picture.hit(scene, hit.x, hit.y) });
			else if (picture === "png") tell({ number, found: await pngOf(this.picture, scene, theme, size) });
			else tell({ number, found: new Blob([svgOf(this.picture, scene, theme, size)], { type: "image/svg+xml" }) });
		} catch {
			tell({ number, found: null });
		}
	}

	private failed(why: string | null): void {
		if (why !== null || this.hasFailed) tell({ failed: why });
		this.hasFailed = why !== null;
	}
}

let painter: Painter | null = null;

addEventListener("message", ({ data: { begin, names, show, refresh, ask } }: MessageEvent<Told>) => {
	if (begin) painter = new Painter(begin);
	if (names) painter?.name(names);
	if (refresh) painter?.refresh();
	if (show) painter?.show(show);
	if (ask) void painter?.answer(ask);
});
