(* SPDX-License-Identifier: Apache-2.0 OR MIT *)
(* ocaml unix.cma floats.ml RUNS: 4,000 arrays of 1,000 floats; each second one is scaled, in order, RUNS times,
   each between two marks (../marks.c). Signals by their numbers. *)
let arrays = Array.init 4_000 (fun i -> Array.make 1_000 (float_of_int i))

let () =
  for _ = 1 to int_of_string Sys.argv.(1) do
    Unix.kill (Unix.getpid ()) 40;
    Array.iteri
      (fun i floats ->
        if i mod 2 = 0 then
          for at = 0 to Array.length floats - 1 do
            floats.(at) <- floats.(at) *. 1.01
          done)
      arrays;
    Unix.kill (Unix.getpid ()) 41
  done
