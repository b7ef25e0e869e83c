// SPDX-License-Identifier: Apache-2.0
//
// Everything public in one include. Read world.h, weights.h and allgather_gemm.h first.
#pragma once

#include "tandem/allgather_gemm.h"
#include "tandem/allgather_gemm_dequant.h"
#include "tandem/launch.h"
#include "tandem/matrix.h"
#include "tandem/measure.h"
#include "tandem/plan.h"
#include "tandem/product_check.h"
#include "tandem/reference.h"
#include "tandem/status.h"
#include "tandem/stream_options.h"
#include "tandem/system.h"
#include "tandem/transport.h"
#include "tandem/types.h"
#include "tandem/weights.h"
#include "tandem/world.h"
