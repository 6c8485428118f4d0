/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* An event that ends after it has reserved space: see step.h. */
#define PISTE_LAST_STEP PISTE_STEP_RESERVE
#define RECORD          record_reserve
#include "step.h"
