(* SPDX-License-Identifier: Apache-2.0 OR MIT *)
(* ocaml unix.cma trees.ml RUNS: a hash table of 200,000 records with mutable fields; 20,000 of them are
   written at random and 2,000 replaced by new ones, RUNS times, each between two marks (../marks.c). *)
type record = { mutable count : int; mutable name : string }

let mark signal = Unix.kill (Unix.getpid ()) signal
let table = Hashtbl.create 200000

let () =
  Random.init 1988;
  for i = 0 to 199999 do
    Hashtbl.replace table i { count = i; name = string_of_int i }
  done;
  Gc.full_major ();
  for run = 1 to int_of_string Sys.argv.(1) do
    mark 40;
    for _ = 1 to 20000 do
      let record = Hashtbl.find table (Random.int 200000) in
      record.count <- record.count + run
    done;
    for _ = 1 to 2000 do
      let key = Random.int 200000 in
      Hashtbl.replace table key { count = run; name = string_of_int run }
    done;
    mark 41
  done
