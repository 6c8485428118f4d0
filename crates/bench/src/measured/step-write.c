/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* An event that ends after it has written its record: see step.h. */
#define PISTE_LAST_STEP PISTE_STEP_WRITE
#define RECORD          record_write
#include "step.h"
