/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Run a Lua script; the interpreter's own main is not in the package. */
#include <stdio.h>

#include "lauxlib.h"
#include "lua.h"
#include "lualib.h"

int main(int argc, char **argv)
{
	lua_State *state = luaL_newstate();
	int failed;

	if (argc < 2 || !state)
		return 2;
	luaL_openlibs(state);
	failed = luaL_loadfile(state, argv[1]) || lua_pcall(state, 0, 0, 0);
	if (failed)
		fprintf(stderr, "%s\n", lua_tostring(state, -1));
	lua_close(state);
	return failed;
}
