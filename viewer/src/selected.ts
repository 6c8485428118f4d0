// SPDX-License-Identifier: MIT OR Apache-2.0
// The piece that is selected: where it begins and ends, and the lanes at the other ends of its arrows.
import type { Shown } from "./address";
import { useAnswer } from "./answers";
import * as api from "./api";
import type { Lanes } from "./rows";
import type { Span } from "./timeline";

export interface Selected {
	piece: api.Named | null;
	/** Absent: it is not known yet, or there is none. */
	span: Span | null;
	/** The lane of the thread that ended it, if it is a wait. */
	waker: number | null;
	/** The lane of the thread that created it, if it is the first piece of a thread. */
	creator: number | null;
}

const NOTHING: Selected = { piece: null, span: null, waker: null, creator: null };

export function useSelected(
	recording: number,
	origin: bigint,
	lanes: Lanes | null,
	selected: Shown["selected"],
): Selected {
	const { answer } = useAnswer(
		selected && lanes ? [recording, origin, selected] : null,
		async (signal): Promise<Selected> => {
			const at = origin + BigInt(Math.round(selected!.at));
			const { piece } = await api.piece(recording, selected!.lane, at, signal);
			if (!piece) return NOTHING;
			const lane = lanes!.get(selected!.lane);
			return {
				piece,
				span: { begin: Number(BigInt(piece.begin_ns) - origin), end: Number(BigInt(piece.end_ns) - origin) },
				waker: lane?.kind === "thread" ? (piece.by?.lane ?? null) : null,
				creator: lane?.first_ns === piece.begin_ns ? (lane.created_by ?? null) : null,
			};
		},
		{ again: lanes },
	);
	return answer ?? NOTHING;
}
