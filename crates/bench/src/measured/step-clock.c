/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* An event that ends after it has read the clock: see step.h. */
#define PISTE_LAST_STEP PISTE_STEP_CLOCK
#define RECORD          record_clock
#include "step.h"
