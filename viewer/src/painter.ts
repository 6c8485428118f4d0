// SPDX-License-Identifier: MIT OR Apache-2.0
// The picture of a timeline, as the page sees it: a worker draws it (worker.ts), and is told only what changes.
import type { Theme } from "./colours";
import type { Lanes, NamesData } from "./rows";
import type { Hit, Scene, Size } from "./timeline";

/** What a picture begins with. */
export interface Began {
	canvas: OffscreenCanvas;
	recording: number;
	origin: bigint;
	names: NamesData;
	scene: Scene;
	theme: Theme;
	size: Size;
}

/** What the page wants to know: what is at a place (CSS pixels), or the view as a file. */
export type Asked = { number: number } & (
	| { hit: { x: number; y: number }; picture?: never }
	| { hit?: never; picture: "svg" | "png" }
);

/** What the worker is told. */
export interface Told {
	begin?: Began;
	names?: NamesData;
	/** What is another thing than before. */
	show?: { scene: Partial<Scene>; theme?: Theme; size?: Size };
	/** The recording has grown. */
	refresh?: true;
	ask?: Asked;
}

/** What the worker tells. */
export interface Answer {
	/** To what was asked with this number; null: there is nothing. */
	number?: number;
	found?: Hit | Blob | null;
	/** More is drawn, because the server answered. */
	hasMore?: true;
	/** Why the server does not answer; null: it does again. */
	failed?: string | null;
}

const start = () => new Worker("worker.js", { type: "module" });
/** It begins while the page does, so that the first picture needs not wait for it. */
let spare: Worker | null = start();

export class Painter {
	private readonly worker = spare ?? start();
	private readonly waiting = new Map<number, (found: Answer["found"]) => void>();
	private asked = 0;
	/** What the worker knows. */
	private known: { scene: Scene; theme: Theme; size: Size; lanes: Lanes } | null = null;
	/** Told that more is drawn. */
	more: () => void = () => {};

	constructor(
		private readonly recording: number,
		private readonly origin: bigint,
		private readonly failed: (why: string | null) => void,
	) {
		spare = null;
		// A fault of ours: an old picture must not look like one of what is there.
		this.worker.addEventListener("error", ({ message }) => failed(`cannot draw the timeline: ${message}`));
		this.worker.addEventListener("message", ({ data }: MessageEvent<Answer>) => {
			if (data.failed !== undefined) failed(data.failed);
			if (data.hasMore) this.more();
			if (data.number === undefined) return;
			this.waiting.get(data.number)?.(data.found);
			this.waiting.delete(data.number);
		});
	}

	/** Draws what is seen in the next frame. The canvas is always the same. */
	show(element: HTMLCanvasElement, scene: Scene, theme: Theme, size: Size, lanes: Lanes): void {
		const { known } = this;
		this.known = { scene, theme, size, lanes };
		if (!known) {
			if (!("transferControlToOffscreen" in element)) {
				this.close();
				this.failed("This browser cannot draw timelines. Use Chrome 80, Firefox 114, Safari 16.4 or a later version.");
				return;
			}
			const canvas = element.transferControlToOffscreen();
			const { recording, origin } = this;
			this.tell({ begin: { canvas, recording, origin, names: lanes.names, scene, theme, size } }, [canvas]);
			return;
		}
		const keys = (Object.keys(scene) as (keyof Scene)[]).filter((key) => scene[key] !== known.scene[key]);
		this.tell({
			...(lanes !== known.lanes && { names: lanes.names }),
			show: {
				scene: Object.fromEntries(keys.map((key) => [key, scene[key]])),
				...(theme !== known.theme && { theme }),
				...(size !== known.size && { size }),
			},
		});
	}

	refresh(): void {
		this.tell({ refresh: true });
	}

	/** What is at a place of the canvas (CSS pixels). */
	hit(x: number, y: number): Promise<Hit | null> {
		return this.ask({ number: ++this.asked, hit: { x, y } }) as Promise<Hit | null>;
	}

	/** The view as a file; null: the browser cannot make it. */
	file(picture: "svg" | "png"): Promise<Blob | null> {
		return this.ask({ number: ++this.asked, picture }) as Promise<Blob | null>;
	}

	/** With all its requests. */
	close(): void {
		this.worker.terminate();
	}

	private ask(ask: Asked): Promise<Answer["found"]> {
		return new Promise((resolve) => {
			this.waiting.set(ask.number, resolve);
			this.tell({ ask });
		});
	}

	private tell(told: Told, handedOver: Transferable[] = []): void {
		this.worker.postMessage(told, handedOver);
	}
}
