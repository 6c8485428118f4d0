// SPDX-License-Identifier: MIT OR Apache-2.0
// A recording that is looked at: its times and its lanes, as far as its timeline is made.
import { useEffect, useMemo, useState } from "preact/hooks";
import * as api from "./api";
import { Lanes } from "./rows";
import type { Span } from "./timeline";

/** While the trace is recorded, lanes are listed again whenever it is longer by so much: their order depends on what they did. */
const LANES_NS = 5e9;

/** The name of a trace: the last part of its path. */
export const nameOf = (path: string): string => path.split("/").findLast(Boolean) ?? path;

export interface Opened {
	/** When it begins, in ns since 1970. */
	origin: bigint;
	whole: Span;
	/** Absent: they are not known yet. */
	lanes: Lanes | null;
	/** Another one whenever more of the timeline is there; while it is made, in percent. */
	progress: number | string | undefined;
}

/** Opens a recording. `fail` is told why that is not possible. */
export function useRecording(number: number, status: api.Status | undefined, fail: (why: string) => void): Opened {
	const [found, setLanes] = useState<{ recording: number; lanes: Lanes } | null>(null);
	// Those of another recording are none of this one.
	const lanes = found?.recording === number ? found.lanes : null;

	const state = status?.state;
	useEffect(() => {
		if (state === "waiting") api.open(number).catch((error) => fail(String(error.message)));
	}, [number, state, fail]);

	const origin = useMemo(() => (status?.begin_ns ? BigInt(status.begin_ns) : 0n), [status?.begin_ns]);
	const whole = useMemo(
		() => ({ begin: 0, end: status?.end_ns ? Math.max(1, Number(BigInt(status.end_ns) - origin)) : 1 }),
		[status?.end_ns, origin],
	);

	const progress =
		state === "growing"
			? Math.floor(status!.share * 100)
			: state === "live"
				? `live ${Math.floor(whole.end / LANES_NS)}`
				: state;
	useEffect(() => {
		if (state !== "growing" && state !== "live" && state !== "whole") return;
		let isOver = false;
		api.lanes(number).then(
			(found) => {
				if (!isOver) setLanes({ recording: number, lanes: new Lanes(found.lanes, found.left_out, found.has_kernel) });
			},
			(error) => fail(String(error.message)),
		);
		return () => {
			isOver = true;
		};
		// Again whenever there is more.
	}, [number, state, progress, fail]);

	return useMemo(() => ({ origin, whole, lanes, progress }), [origin, whole, lanes, progress]);
}
