# What the SDKs were seen to do, into docs: after a change of tests/api/sdk.
sdk-matrix: programs
	BRIG_SDK_MATRIX=1 tests/api/sdk.t
.PHONY: sdk-matrix
