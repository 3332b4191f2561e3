;;;; SPDX-License-Identifier: Apache-2.0 OR MIT
;;;;
;;;; sbcl --script run.lisp: the planner loaded and compiled, then PLANNER_RUNS times its problems,
;;;; each time between two marks (../marks.c).

(handler-bind ((warning #'muffle-warning))
  (load (merge-pathnames "planner.lisp" *load-truename*))
  (load (merge-pathnames "domain.lisp" *load-truename*)))
(in-package :planner)

(defun mark (signal)
  (sb-alien:alien-funcall
   (sb-alien:extern-alien "raise" (function sb-alien:int sb-alien:int)) signal))

(defun solve ()
  "The dog fetches slippers in houses of growing size, and stacks boxes."
  (flet ((found (goals state) (assert (plan goals state *rooms* '(4 3 2 1)))))
    (loop for side from 3 to 8
          do (multiple-value-call #'found (slippers-problem side)))
    (multiple-value-call #'found (boxes-problem 3 3))))

(dotimes (i (parse-integer (or (sb-ext:posix-getenv "PLANNER_RUNS") "1")))
  (mark 40)
  (solve)
  (mark 41))
