// SPDX-License-Identifier: MIT OR Apache-2.0
// What is in a lane under the pointer.
import { useEffect, useRef, useState } from "preact/hooks";
import type { Pointer } from "./hands";
import type { Painter } from "./painter";
import { type LaneRow, type Lanes, title } from "./rows";
import { moment } from "./time";
import type { Hit, Scene } from "./timeline";
import { Tip } from "./tip";

interface Props {
	painter: Painter;
	pointer: Pointer;
	scene: Scene;
	lanes: Lanes;
	nsPerPixel: number;
}

export function LaneTip({ painter, pointer, scene, lanes, nsPerPixel }: Props) {
	const hit = useHit(painter, pointer, scene);
	const row = hit && scene.rows.find((row): row is LaneRow => row.lane?.id === hit.lane);
	if (!row) return null;
	return (
		<Tip x={pointer.clientX} y={pointer.clientY}>
			<strong>
				{row.lane.kind === "counter" ? title(row.lane, lanes) : <bdi>{row.title}</bdi>} <small>{row.note}</small>
			</strong>
			{hit.lines.map((line) => (
				<div key={line}>{line}</div>
			))}
			<small>{moment(hit.at, Math.max(1, nsPerPixel))}</small>
		</Tip>
	);
}

/** What is under the pointer. Looks again whenever the pointer or the picture changes, once at a time. */
function useHit(painter: Painter, pointer: Pointer, scene: Scene): Hit | null {
	const [hit, setHit] = useState<Hit | null>(null);
	const latest = useRef(pointer);
	latest.current = pointer;
	const look = useRef(() => {});
	useEffect(() => {
		let [isOver, isLooking, isOther] = [false, false, false];
		const start = async () => {
			isOther = true;
			if (isLooking) return;
			isLooking = true;
			while (isOther && !isOver) {
				isOther = false;
				const found = await painter.hit(latest.current.x, latest.current.y);
				if (!isOver) setHit(found);
			}
			isLooking = false;
		};
		look.current = start;
		painter.more = start;
		return () => {
			isOver = true;
			painter.more = () => {};
		};
	}, [painter]);
	useEffect(() => look.current(), [pointer, scene]);
	return hit;
}
