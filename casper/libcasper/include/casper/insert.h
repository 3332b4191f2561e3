/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What `casper-trace insert` puts into C sources. It includes nothing and defines no short names,
 * since it comes before everything else in a file.
 *
 * A function is instrumented by one declaration at the start of its body. The compiler runs the
 * variable's cleanup wherever the function is left: each return, after the returned expression was
 * computed, and the end of the body. So no return statement is touched.
 *
 * What a source may do with its own macros decides the form of all this: words that sources like
 * to redefine (static, const, inline, if, return, int, __attribute__) are used here, above the
 * source's text, or not at all.
 */
#ifndef CASPER_INSERT_H
#define CASPER_INSERT_H

struct casper_function {
	const char *name;
	unsigned int line;
};

/* The instrumented functions of one file. */
struct casper_unit {
	const char *file;
	const struct casper_function *functions;
	unsigned int count;
	unsigned int base; /* identifier of the first, once registered; before, 0 */
	struct casper_unit *next;
	unsigned int users; /* files of this program or library that include it, and have begun */
};

/* The identifier of a function that runs; 0: its beginning was not recorded. */
typedef unsigned int casper_scope;

#ifdef __cplusplus
extern "C" {
#endif
extern const volatile __UINT32_TYPE__ *casper_on;
void casper_unit_register(struct casper_unit *casper_unit);
void casper_unit_unregister(struct casper_unit *casper_unit);
unsigned int casper_function_enter(struct casper_unit *casper_unit, unsigned int casper_index,
				   void *casper_frame, void *casper_call_site);
void casper_function_exit(unsigned int casper_function);
#ifdef __cplusplus
}
#endif

/*
 * Not a function: the frame and the return address are those of the instrumented one. A scalar,
 * since C89 initialises nothing else with what is not constant. Volatile, so that it is in memory:
 * a function that calls setjmp or vfork keeps it, and compilers have no reason to warn.
 */
#define CASPER_FUNCTION(unit, index)                                                               \
	volatile casper_scope casper_scope_##index                                                 \
		__attribute((__cleanup__(casper_leave), __unused__)) =                             \
			__builtin_expect(*casper_on != 0, 0)                                       \
				? casper_function_enter(&unit, index, __builtin_frame_address(0),  \
							__builtin_return_address(0))               \
				: 0

/* In each of its callers, and nowhere else: not static, for the sake of external inline functions.
 */
extern __inline__ __attribute((__always_inline__, __gnu_inline__, __no_instrument_function__)) void
casper_leave(volatile casper_scope *casper_scope_left)
{
	if (__builtin_expect(*casper_scope_left != 0, 0))
		casper_function_exit(*casper_scope_left);
}

/* An instrumented header is a unit of each file that includes it, and registers once. */
static __inline__ __attribute((__unused__, __no_instrument_function__)) void
casper_unit_begin(struct casper_unit *casper_unit)
{
	if (casper_unit->users++ == 0)
		casper_unit_register(casper_unit);
}

static __inline__ __attribute((__unused__, __no_instrument_function__)) void
casper_unit_end(struct casper_unit *casper_unit)
{
	if (--casper_unit->users == 0)
		casper_unit_unregister(casper_unit);
}

/*
 * Before the first function of a file. Not static: a function that is inline and external may not
 * name what is static. Weak: files that include the same instrumented header share it; hidden: but
 * not across libraries.
 */
#define CASPER_UNIT(unit) extern struct casper_unit unit __attribute((__visibility__("hidden")))

/* After the last. */
#define CASPER_UNIT_END(unit, file_name, function_table)                                           \
	struct casper_unit unit __attribute((__weak__, __visibility__("hidden"))) = {              \
		file_name,                                                                         \
		function_table,                                                                    \
		sizeof(function_table) / sizeof((function_table)[0]),                              \
		0,                                                                                 \
		0,                                                                                 \
		0                                                                                  \
	};                                                                                         \
	static __attribute((__constructor__)) void unit##_begin(void)                              \
	{                                                                                          \
		casper_unit_begin(&unit);                                                          \
	}                                                                                          \
	static __attribute((__destructor__)) void unit##_finish(void)                              \
	{                                                                                          \
		casper_unit_end(&unit);                                                            \
	}

#endif
