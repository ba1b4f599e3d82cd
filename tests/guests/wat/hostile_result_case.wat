;; Gives an answer that is neither ok nor an error.
(func (export "clawhost:environment/environment@0.1.0#describe") (result i32)
  (i32.store (i32.const 1024) (i32.const 7))
  (i32.const 1024))
