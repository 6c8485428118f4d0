/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* An event that ends after it has found its ring: see step.h. */
#define PISTE_LAST_STEP PISTE_STEP_LOOKUP
#define RECORD          record_lookup
#include "step.h"
