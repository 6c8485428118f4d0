// SPDX-License-Identifier: MIT OR Apache-2.0
// What is shown while an answer is awaited: how far the command is that reads the trace for it.
import { useEffect, useState } from "preact/hooks";
import * as api from "./api";

/** The command itself says nothing before it took a second. */
const STEP_MS = 500;

interface Props {
	/** Of the question, such as `0/diff/1`. */
	path: string;
	/** Shown until it is known how far it is. */
	children: string;
}

export function Waiting({ path, children }: Props) {
	const [way, setWay] = useState<api.Way | null>(null);
	useEffect(() => {
		const controller = new AbortController();
		const { signal } = controller;
		const look = () =>
			api.progress(path, signal).then(
				(way) => signal.aborted || setWay(way),
				// The answer itself says what is wrong.
				() => undefined,
			);
		const timer = setInterval(look, STEP_MS);
		return () => {
			clearInterval(timer);
			controller.abort();
		};
	}, [path]);
	if (!way?.total_bytes) return <span class="faint">{children}</span>;
	const share = way.done_bytes / way.total_bytes;
	return (
		<span class="faint waiting">
			{way.what}: {Math.floor(share * 100)} %
			<progress value={share} max={1} aria-label={way.what} />
		</span>
	);
}
