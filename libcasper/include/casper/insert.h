/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What `cowlab insert` puts into C sources. It includes nothing and defines no short names, since
 * it comes before everything else in a file.
 *
 * A function is instrumented by one declaration at the start of its body. The compiler runs the
 * variable's cleanup wherever the function is left: each return, after the returned expression was
 * computed, and the end of the body. So no return statement is touched.
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
};

struct casper_scope {
	unsigned int function; /* identifier; 0: its beginning was not recorded */
};

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

/* Not a function: the frame and the return address are those of the instrumented one. */
#define CASPER_FUNCTION(unit, index)                                                               \
	struct casper_scope casper_scope_##index __attribute((__cleanup__(casper_leave))) = {      \
		__builtin_expect(*casper_on != 0, 0)                                               \
			? casper_function_enter(&unit, index, __builtin_frame_address(0),          \
						__builtin_return_address(0))                       \
			: 0                                                                        \
	};

static __inline__ __attribute((__always_inline__, __unused__, __no_instrument_function__)) void
casper_leave(struct casper_scope *casper_scope)
{
	if (__builtin_expect(casper_scope->function != 0, 0))
		casper_function_exit(casper_scope->function);
}

/* Before the first function of a file. */
#define CASPER_UNIT(unit) static struct casper_unit unit;

/* After the last. */
#define CASPER_UNIT_END(unit, file_name, function_table)                                           \
	static struct casper_unit unit = { file_name, function_table,                              \
					   sizeof(function_table) / sizeof((function_table)[0]),   \
					   0, 0 };                                                 \
	static __attribute((__constructor__)) void unit##_begin(void)                              \
	{                                                                                          \
		casper_unit_register(&unit);                                                       \
	}                                                                                          \
	static __attribute((__destructor__)) void unit##_end(void)                                 \
	{                                                                                          \
		casper_unit_unregister(&unit);                                                     \
	}

#endif
