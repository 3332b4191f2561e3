/* SPDX-License-Identifier: GPL-2.0-only */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM cow

#if !defined(_TRACE_COW_H) || defined(TRACE_HEADER_MULTI_READ)
#define _TRACE_COW_H

#include <linux/tracepoint.h>

/**
 * cow_fault - one of every vm.cow_sample_interval copy-on-write faults
 * @address:	the page that was written to
 * @copy_ns:	time to copy it, 0 if it was not timed
 * @fault_ns:	time from the fault handler's entry to the new page table
 *		entry, 0 if it was not timed
 */
TRACE_EVENT(cow_fault,

	TP_PROTO(unsigned long address, u64 copy_ns, u64 fault_ns),

	TP_ARGS(address, copy_ns, fault_ns),

	TP_STRUCT__entry(
		__field(unsigned long,	address)
		__field(u64,		copy_ns)
		__field(u64,		fault_ns)
	),

	TP_fast_assign(
		__entry->address	= address;
		__entry->copy_ns	= copy_ns;
		__entry->fault_ns	= fault_ns;
	),

	TP_printk("address=0x%lx copy_ns=%llu fault_ns=%llu",
		  __entry->address, __entry->copy_ns, __entry->fault_ns)
);

#endif /* _TRACE_COW_H */

/* This part must be outside protection */
#include <trace/define_trace.h>
