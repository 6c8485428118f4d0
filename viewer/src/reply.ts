// SPDX-License-Identifier: MIT OR Apache-2.0
// What lanes show, as the server says it in bytes.
import { ask, type Label, type Labels, type Numbers, type Part, type Pieces, plain } from "./api";
import { CLASSES } from "./colours";

const VALUE = CLASSES.indexOf("value");
const UTF_8 = new TextDecoder();
/** Of a label, before its text: its number, its lane and how long it is. */
const LABEL_HEAD = 10;

/** What lanes show in a range. */
export async function part(
	recording: number,
	lanes: number[],
	begin: bigint,
	end: bigint,
	columns: number,
	signal: AbortSignal,
): Promise<Part> {
	const body = JSON.stringify({ begin_ns: String(begin), end_ns: String(end), columns, lanes });
	const response = await ask(`${recording}/view`, { method: "POST", body, signal });
	return decode(await response.arrayBuffer());
}

/** The form is described in crates/web/src/reply.rs. */
function decode(buffer: ArrayBuffer): Part {
	const view = new DataView(buffer);
	let at = 0;
	const u8 = () => view.getUint8(at++);
	const u16 = () => {
		at += 2;
		return view.getUint16(at - 2, true);
	};
	const u32 = () => {
		at += 4;
		return view.getUint32(at - 4, true);
	};
	const f64 = () => {
		at += 8;
		return view.getFloat64(at - 8, true);
	};
	const lanes: Part["lanes"] = new Map();
	for (let left = u32(); left > 0; left--) {
		const id = u32();
		const isPieces = u8() === 1;
		const count = u32();
		if (isPieces) {
			const pieces: Pieces = {
				kind: "pieces",
				begin: new Float64Array(count),
				duration: new Float64Array(count),
				classes: new Uint8Array(count),
				what: new Uint32Array(count),
				by: new Uint32Array(count),
				values: new Float64Array(count),
			};
			for (let index = 0; index < count; index++) {
				pieces.begin[index] = f64();
				pieces.duration[index] = f64();
				pieces.classes[index] = u8();
				pieces.what[index] = u32();
				pieces.by[index] = u32();
				if (pieces.classes[index] === VALUE) pieces.values[index] = f64();
			}
			lanes.set(id, pieces);
			continue;
		}
		const masks = new Uint16Array(count);
		const longest = new Uint32Array(count);
		const longestClass = new Uint8Array(count);
		const shares = new Uint8Array(count * 16);
		let known = 0;
		const numbers = new Map<number, Numbers>();
		for (let index = 0; index < count; index++) {
			const mask = u16();
			masks[index] = mask;
			for (let rest = mask; rest !== 0; rest &= rest - 1) shares[known++] = u8();
			if (mask === 0) continue;
			longestClass[index] = u8();
			longest[index] = u32();
			if ((mask >> VALUE) & 1) numbers.set(index, { amounts: u32(), least: f64(), most: f64(), total: f64() });
		}
		lanes.set(id, { kind: "columns", masks, shares: shares.slice(0, known), longestClass, longest, numbers });
	}
	return { lanes, labels: new LabelsOfReply(buffer.slice(at)) };
}

/** What numbers in lanes stand for. Most are never asked for: texts are made when they are needed first. */
class LabelsOfReply implements Labels {
	private readonly view: DataView;
	/** Where each label is. */
	private readonly places = new Map<number, number>();
	private readonly known = new Map<number, Label>();

	constructor(private readonly bytes: ArrayBuffer) {
		this.view = new DataView(bytes);
		let at = 4;
		for (let left = this.view.getUint32(0, true); left > 0; left--) {
			this.places.set(this.view.getUint32(at, true), at + 4);
			at += LABEL_HEAD + this.view.getUint16(at + 8, true);
		}
	}

	get(number: number): Label | undefined {
		const known = this.known.get(number);
		const at = this.places.get(number);
		if (known || at === undefined) return known;
		const lane = this.view.getUint32(at, true);
		const text = new Uint8Array(this.bytes, at + 6, this.view.getUint16(at + 4, true));
		const label = { text: plain(UTF_8.decode(text)), lane: lane === 0 ? null : lane - 1 };
		this.known.set(number, label);
		return label;
	}
}
