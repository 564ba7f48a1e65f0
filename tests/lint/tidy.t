#!/bin/sh
exec tools/tidy.py
