// SPDX-License-Identifier: MIT OR Apache-2.0
// The piece that is selected: its neighbours, where it begins and ends, and the lanes at the other ends of its arrows.
import type { Shown } from "./address";
import { useAnswer } from "./answers";
import * as api from "./api";
import type { Lanes } from "./rows";
import type { Span } from "./timeline";

/** What a lane has at a time. */
export interface Known {
	found: api.Found;
	/** Where the piece begins and ends; null: there is none. */
	span: Span | null;
	/** The lane of the thread that ended it, if it is a wait. */
	waker: number | null;
	/** The lane of the thread that created it, if it is the first piece of a thread. */
	creator: number | null;
}

export interface Selection {
	/** Null: it is not known yet, or nothing is selected. */
	known: Known | null;
	/** For the details: the same, but the piece before in the same lane stays until the next one is known. */
	last: Known | null;
	/** Why it is not known. */
	problem: string | undefined;
}

export function useSelected(
	recording: number,
	origin: bigint,
	lanes: Lanes | null,
	selected: Shown["selected"],
): Selection {
	const { answer, problem } = useAnswer(
		lanes ? [recording, origin, selected?.lane] : null,
		async (signal) => {
			// A piece does not stay for a later selection in its lane.
			if (!selected) return null;
			const at = origin + BigInt(Math.round(selected.at));
			const found = await api.piece(recording, selected.lane, at, signal);
			return { of: selected, known: knownOf(found, origin, lanes!.get(selected.lane)) };
		},
		{ again: [selected, lanes] },
	);
	const last = answer?.known ?? null;
	return { known: answer?.of === selected ? last : null, last, problem };
}

function knownOf(found: api.Found, origin: bigint, lane: api.Lane | undefined): Known {
	const { piece } = found;
	if (!piece) return { found, span: null, waker: null, creator: null };
	return {
		found,
		span: { begin: Number(BigInt(piece.begin_ns) - origin), end: Number(BigInt(piece.end_ns) - origin) },
		waker: lane?.kind === "thread" ? (piece.by?.lane ?? null) : null,
		creator: lane?.first_ns === piece.begin_ns ? (lane.created_by ?? null) : null,
	};
}
