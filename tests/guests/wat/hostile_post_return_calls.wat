;; Calls the host when the host says that it has read the answer.
(import "clawhost:log/log@0.1.0" "write" (func $write (param i32 i32 i32)))
(func (export "cabi_post_clawhost:environment/environment@0.1.0#describe") (param i32)
  (call $write (i32.const 0) (i32.const 512) (i32.const 4)))
