;;;; SPDX-License-Identifier: Apache-2.0 OR MIT
;;;;
;;;; A hierarchical STRIPS planner in the manner of ABSTRIPS (Sacerdoti 1974).
;;;;
;;;; An operator has preconditions, an add list and a delete list, with variables (?x). Each
;;;; precondition has a criticality, by its predicate. In the space of criticality N only the
;;;; preconditions of at least N count: the plan found there is a skeleton, and each of its
;;;; operators is a goal in turn in the space below, where more preconditions count. In a space
;;;; the search is GPS's, backwards from the goals; where no order of the skeleton works, the
;;;; planner goes back and asks the space above for another one.
;;;;
;;;; States are lists of facts and are never changed, only made anew: the planner lives on its heap,
;;;; as the one of 1988 did.

(defpackage :planner (:use :cl) (:export #:plan #:run-plan #:holds-p #:make-domain #:operator))
(in-package :planner)

;;; Facts, variables, unification

(defun variable-p (x) (and (symbolp x) (char= (char (symbol-name x) 0) #\?)))

(defun value (x bindings)
  "What X stands for."
  (let ((bound (and (variable-p x) (assoc x bindings))))
    (if bound (value (cdr bound) bindings) x)))

(defun match (pattern fact bindings)
  "BINDINGS under which PATTERN is FACT, or :FAIL."
  (if (/= (length pattern) (length fact))
      :fail
      (loop for p in pattern for f in fact
            for x = (value p bindings) for y = (value f bindings)
            do (cond ((eql x y))
                     ((variable-p x) (push (cons x y) bindings))
                     ((variable-p y) (push (cons y x) bindings))
                     (t (return :fail)))
            finally (return bindings))))

(defun instance (pattern bindings)
  (mapcar (lambda (x) (value x bindings)) pattern))

(defun ground-p (fact) (notany #'variable-p fact))

(defun holds-p (fact state) (member fact state :test #'equal))

;;; Operators and domains

(defstruct (operator (:constructor operator (name preconditions adds deletes)))
  name preconditions adds deletes)

(defstruct domain operators criticality)

(defun criticality (fact domain)
  "Of a fact, by its predicate; what the domain does not name is a detail."
  (or (cdr (assoc (first fact) (domain-criticality domain))) 1))

(defun preconditions-in (operator level domain)
  "Those that count in the space of criticality LEVEL, the most critical first."
  (sort (remove-if (lambda (fact) (< (criticality fact domain) level))
                   (copy-list (operator-preconditions operator)))
        #'> :key (lambda (fact) (criticality fact domain))))

(defvar *instances* 0 "Makes the variables of each use of an operator its own.")

(defun renamed (operator)
  (let ((names '()) (number (incf *instances*)))
    (labels ((name (x)
               (cond ((consp x) (mapcar #'name x))
                     ((variable-p x)
                      (or (cdr (assoc x names))
                          (let ((new (make-symbol (format nil "~a~d" x number))))
                            (push (cons x new) names)
                            new)))
                     (t x))))
      (operator (name (operator-name operator))
                (name (operator-preconditions operator))
                (name (operator-adds operator))
                (name (operator-deletes operator))))))

(defun ground (operator bindings)
  (flet ((all (facts) (mapcar (lambda (fact) (instance fact bindings)) facts)))
    (operator (instance (operator-name operator) bindings)
              (all (operator-preconditions operator))
              (all (operator-adds operator))
              (all (operator-deletes operator)))))

(defun apply-operator (operator state)
  "The state after it: a new list, the old one stays for whoever goes back."
  (append (operator-adds operator)
          (remove-if (lambda (fact)
                       (or (holds-p fact (operator-deletes operator))
                           (holds-p fact (operator-adds operator))))
                     state)))

;;; Search in one space. Success is a call of NEXT with the state and the plan so far (last step
;;; first); NIL coming back from it means: find another way.

(defvar *depth* 24 "Goals within goals.")

(defun binding-choices (facts state bindings next)
  "Call NEXT with each way to make FACTS true of STATE; facts that are not become open goals."
  (labels ((try (facts bindings open)
             (if (null facts)
                 (funcall next bindings (reverse open))
                 (let ((fact (instance (first facts) bindings)))
                   (or (loop for known in state
                             for bound = (match fact known bindings)
                             thereis (and (not (eq bound :fail))
                                          (try (rest facts) bound open)))
                       (and (ground-p fact)
                            (not (holds-p fact state))
                            (try (rest facts) bindings (cons fact open))))))))
    (try facts bindings '())))

(defun achieve-all (goals state steps level domain stack next)
  "Reach all of GOALS, one after the other, and all of them at the end."
  (labels ((each (left state steps)
             (cond ((null left)
                    (and (every (lambda (goal) (holds-p goal state)) goals)
                         (funcall next state steps)))
                   (t (achieve (first left) state steps level domain stack
                               (lambda (state steps) (each (rest left) state steps)))))))
    (each goals state steps)))

(defun achieve (goal state steps level domain stack next)
  (cond ((holds-p goal state) (funcall next state steps))
        ((or (member goal stack :test #'equal) (>= (length stack) *depth*)) nil)
        (t (loop for operator in (domain-operators domain)
                 thereis (achieve-by (renamed operator) goal state steps level domain
                                     (cons goal stack) next)))))

(defun achieve-by (operator goal state steps level domain stack next)
  "By its first effect: the others are side effects, for which nobody does it."
  (let ((bindings (match (first (operator-adds operator)) goal '())))
    (and (not (eq bindings :fail))
         (apply-when-ready operator bindings state steps level domain stack next))))

(defun apply-when-ready (operator bindings state steps level domain stack next)
  "Reach the preconditions that count, then apply OPERATOR."
  (binding-choices
   (preconditions-in operator level domain) state bindings
   (lambda (bindings open)
     (let ((ready (ground operator bindings)))
       (and (ground-p (operator-name ready))
            (achieve-all
             open state steps level domain stack
             (lambda (state steps)
               (and (every (lambda (fact) (holds-p fact state))
                           (preconditions-in ready level domain))
                    (funcall next (apply-operator ready state) (cons ready steps))))))))))

;;; From space to space

(defun refine (skeleton state level domain next)
  "Do the steps of SKELETON in the space of LEVEL, with what their preconditions need there."
  (labels ((each (left state steps)
             (if (null left)
                 (funcall next state steps)
                 (let ((step (first left)))
                   (apply-when-ready
                    step '() state steps level domain '()
                    (lambda (state steps) (each (rest left) state steps)))))))
    (each skeleton state '())))

(defun plan (goals state domain levels &key (report (constantly nil)))
  "The names of the steps that make GOALS true, found through LEVELS (criticalities, falling), or NIL.
REPORT is called with each space's criticality and skeleton."
  (labels ((names (steps) (mapcar #'operator-name steps))
           (done (steps) (return-from plan (names steps)))
           (below (levels skeleton)
             (if (null levels)
                 (done skeleton)
                 (refine skeleton state (first levels) domain
                         (lambda (end steps)
                           (and (every (lambda (goal) (holds-p goal end)) goals)
                                (let ((steps (reverse steps)))
                                  (funcall report (first levels) (names steps))
                                  (below (rest levels) steps))))))))
    (achieve-all goals state '() (first levels) domain '()
                 (lambda (end steps)
                   (declare (ignore end))
                   (let ((steps (reverse steps)))
                     (funcall report (first levels) (names steps))
                     (below (rest levels) steps))))
    nil))

(defun run-plan (names state domain)
  "The state after the steps NAMES, every precondition checked; an error if one does not hold."
  (dolist (name names state)
    (setf state
          (or (loop for operator in (mapcar #'renamed (domain-operators domain))
                    for bindings = (match (operator-name operator) name '())
                    thereis (and (not (eq bindings :fail))
                                 (binding-choices
                                  (operator-preconditions operator) state bindings
                                  (lambda (bindings open)
                                    (unless open
                                      (apply-operator (ground operator bindings) state))))))
              (error "~a: its preconditions do not hold" name)))))
