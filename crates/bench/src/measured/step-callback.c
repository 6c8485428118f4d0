/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* An event that ends after the call: see step.h. */
#define PISTE_LAST_STEP PISTE_STEP_CALLBACK
#define RECORD          record_callback
#include "step.h"
