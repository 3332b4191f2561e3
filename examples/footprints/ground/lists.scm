;;; SPDX-License-Identifier: Apache-2.0 OR MIT
;;; guile lists.scm RUNS: a vector of 300,000 lists; each tenth gets a new head and loses its last, and
;;; then all is collected, RUNS times, each between two marks (../marks.c).
(define runs (string->number (cadr (command-line))))
(define lists (make-vector 300000 '()))
(do ((i 0 (+ i 1))) ((= i 300000)) (vector-set! lists i (list i (+ i 1) (+ i 2))))
(do ((run 0 (+ run 1))) ((= run runs))
  (kill (getpid) 40)
  (do ((i 0 (+ i 10))) ((>= i 300000))
    (let ((old (vector-ref lists i)))
      (set-car! (cdr old) run)
      (vector-set! lists i (list run (car old) (cadr old)))))
  (gc)
  (kill (getpid) 41))
