/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* LTTng-UST's counterpart of struct sample_event in casper.c: three integers. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER casper

#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "lttng_provider.h"

#if !defined(LTTNG_PROVIDER_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define LTTNG_PROVIDER_H

#include <lttng/tracepoint.h>
#include <stdint.h>

/* clang-format off */
LTTNG_UST_TRACEPOINT_EVENT(
	casper, sample,
	LTTNG_UST_TP_ARGS(uint32_t, first_arg, uint64_t, second_arg, uint64_t, third_arg),
	LTTNG_UST_TP_FIELDS(
		lttng_ust_field_integer(uint32_t, first, first_arg)
		lttng_ust_field_integer(uint64_t, second, second_arg)
		lttng_ust_field_integer(uint64_t, third, third_arg)
	)
)
/* clang-format on */

#endif

#include <lttng/tracepoint-event.h>
