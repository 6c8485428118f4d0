/* SPDX-License-Identifier: MIT */
/*
 * Counting and repetition in the preprocessor:
 *
 *   PISTE_COUNT(a, b, ...)        the number of its arguments, 1 to 130
 *   PISTE_SHAPE(...)              the token `one`, `two` or `more`, depending on the number of its arguments
 *   PISTE_FIELDS(m, a, f...)      m(a, f) for each of up to 40 fields
 *   PISTE_LABELS(m, a, l...)      m(a, l) for each of up to 128 labels
 *
 * PISTE_FIELDS and PISTE_LABELS have separate macros because labels are inside fields, and a macro is not expanded inside itself.
 * Numbered macros take the least time to compile.
 */
#ifndef PISTE_MAP_H
#define PISTE_MAP_H

#define PISTE_JOIN(a, b)  PISTE_JOIN_(a, b)
#define PISTE_JOIN_(a, b) a##b

/* clang-format off */
#define PISTE_COUNT(...) PISTE_COUNT_(__VA_ARGS__, \
	130, 129, 128, 127, 126, 125, 124, 123, 122, 121, 120, 119, 118, 117, 116, 115, 114, 113, 112, 111, \
	110, 109, 108, 107, 106, 105, 104, 103, 102, 101, 100, 99, 98, 97, 96, 95, 94, 93, 92, 91, \
	90, 89, 88, 87, 86, 85, 84, 83, 82, 81, 80, 79, 78, 77, 76, 75, 74, 73, 72, 71, \
	70, 69, 68, 67, 66, 65, 64, 63, 62, 61, 60, 59, 58, 57, 56, 55, 54, 53, 52, 51, \
	50, 49, 48, 47, 46, 45, 44, 43, 42, 41, 40, 39, 38, 37, 36, 35, 34, 33, 32, 31, \
	30, 29, 28, 27, 26, 25, 24, 23, 22, 21, 20, 19, 18, 17, 16, 15, 14, 13, 12, 11, \
	10, 9, 8, 7, 6, 5, 4, 3, 2, 1, \
	0)
#define PISTE_COUNT_( \
	_1, _2, _3, _4, _5, _6, _7, _8, _9, _10, _11, _12, _13, _14, _15, _16, _17, _18, _19, _20, _21, _22, _23, _24, \
	_25, _26, _27, _28, _29, _30, _31, _32, _33, _34, _35, _36, _37, _38, _39, _40, _41, _42, _43, _44, _45, _46, \
	_47, _48, _49, _50, _51, _52, _53, _54, _55, _56, _57, _58, _59, _60, _61, _62, _63, _64, _65, _66, _67, _68, \
	_69, _70, _71, _72, _73, _74, _75, _76, _77, _78, _79, _80, _81, _82, _83, _84, _85, _86, _87, _88, _89, _90, \
	_91, _92, _93, _94, _95, _96, _97, _98, _99, _100, _101, _102, _103, _104, _105, _106, _107, _108, _109, _110, \
	_111, _112, _113, _114, _115, _116, _117, _118, _119, _120, _121, _122, _123, _124, _125, _126, _127, _128, \
	_129, _130, \
	count, ...) count
#define PISTE_SHAPE(...) PISTE_COUNT_(__VA_ARGS__, \
	more, more, more, more, more, more, more, more, more, more, more, more, more, more, more, more, more, more, \
	more, more, more, more, more, more, more, more, more, more, more, more, more, more, more, more, more, more, \
	more, more, more, more, more, more, more, more, more, more, more, more, more, more, more, more, more, more, \
	more, more, more, more, more, more, more, more, more, more, more, more, more, more, more, more, more, more, \
	more, more, more, more, more, more, more, more, more, more, more, more, more, more, more, more, more, more, \
	more, more, more, more, more, more, more, more, more, more, more, more, more, more, more, more, more, more, \
	more, more, more, more, more, more, more, more, more, more, more, more, more, more, more, more, more, more, \
	more, more, two, one, \
	0)

#define PISTE_FIELDS(m, a, ...) PISTE_JOIN(PISTE_FIELDS_, PISTE_COUNT(__VA_ARGS__))(m, a, __VA_ARGS__)
#define PISTE_FIELDS_1(m, a, x) m(a, x)
#define PISTE_FIELDS_2(m, a, x, ...) m(a, x) PISTE_FIELDS_1(m, a, __VA_ARGS__)
#define PISTE_FIELDS_3(m, a, x, ...) m(a, x) PISTE_FIELDS_2(m, a, __VA_ARGS__)
#define PISTE_FIELDS_4(m, a, x, ...) m(a, x) PISTE_FIELDS_3(m, a, __VA_ARGS__)
#define PISTE_FIELDS_5(m, a, x, ...) m(a, x) PISTE_FIELDS_4(m, a, __VA_ARGS__)
#define PISTE_FIELDS_6(m, a, x, ...) m(a, x) PISTE_FIELDS_5(m, a, __VA_ARGS__)
#define PISTE_FIELDS_7(m, a, x, ...) m(a, x) PISTE_FIELDS_6(m, a, __VA_ARGS__)
#define PISTE_FIELDS_8(m, a, x, ...) m(a, x) PISTE_FIELDS_7(m, a, __VA_ARGS__)
#define PISTE_FIELDS_9(m, a, x, ...) m(a, x) PISTE_FIELDS_8(m, a, __VA_ARGS__)
#define PISTE_FIELDS_10(m, a, x, ...) m(a, x) PISTE_FIELDS_9(m, a, __VA_ARGS__)
#define PISTE_FIELDS_11(m, a, x, ...) m(a, x) PISTE_FIELDS_10(m, a, __VA_ARGS__)
#define PISTE_FIELDS_12(m, a, x, ...) m(a, x) PISTE_FIELDS_11(m, a, __VA_ARGS__)
#define PISTE_FIELDS_13(m, a, x, ...) m(a, x) PISTE_FIELDS_12(m, a, __VA_ARGS__)
#define PISTE_FIELDS_14(m, a, x, ...) m(a, x) PISTE_FIELDS_13(m, a, __VA_ARGS__)
#define PISTE_FIELDS_15(m, a, x, ...) m(a, x) PISTE_FIELDS_14(m, a, __VA_ARGS__)
#define PISTE_FIELDS_16(m, a, x, ...) m(a, x) PISTE_FIELDS_15(m, a, __VA_ARGS__)
#define PISTE_FIELDS_17(m, a, x, ...) m(a, x) PISTE_FIELDS_16(m, a, __VA_ARGS__)
#define PISTE_FIELDS_18(m, a, x, ...) m(a, x) PISTE_FIELDS_17(m, a, __VA_ARGS__)
#define PISTE_FIELDS_19(m, a, x, ...) m(a, x) PISTE_FIELDS_18(m, a, __VA_ARGS__)
#define PISTE_FIELDS_20(m, a, x, ...) m(a, x) PISTE_FIELDS_19(m, a, __VA_ARGS__)
#define PISTE_FIELDS_21(m, a, x, ...) m(a, x) PISTE_FIELDS_20(m, a, __VA_ARGS__)
#define PISTE_FIELDS_22(m, a, x, ...) m(a, x) PISTE_FIELDS_21(m, a, __VA_ARGS__)
#define PISTE_FIELDS_23(m, a, x, ...) m(a, x) PISTE_FIELDS_22(m, a, __VA_ARGS__)
#define PISTE_FIELDS_24(m, a, x, ...) m(a, x) PISTE_FIELDS_23(m, a, __VA_ARGS__)
#define PISTE_FIELDS_25(m, a, x, ...) m(a, x) PISTE_FIELDS_24(m, a, __VA_ARGS__)
#define PISTE_FIELDS_26(m, a, x, ...) m(a, x) PISTE_FIELDS_25(m, a, __VA_ARGS__)
#define PISTE_FIELDS_27(m, a, x, ...) m(a, x) PISTE_FIELDS_26(m, a, __VA_ARGS__)
#define PISTE_FIELDS_28(m, a, x, ...) m(a, x) PISTE_FIELDS_27(m, a, __VA_ARGS__)
#define PISTE_FIELDS_29(m, a, x, ...) m(a, x) PISTE_FIELDS_28(m, a, __VA_ARGS__)
#define PISTE_FIELDS_30(m, a, x, ...) m(a, x) PISTE_FIELDS_29(m, a, __VA_ARGS__)
#define PISTE_FIELDS_31(m, a, x, ...) m(a, x) PISTE_FIELDS_30(m, a, __VA_ARGS__)
#define PISTE_FIELDS_32(m, a, x, ...) m(a, x) PISTE_FIELDS_31(m, a, __VA_ARGS__)
#define PISTE_FIELDS_33(m, a, x, ...) m(a, x) PISTE_FIELDS_32(m, a, __VA_ARGS__)
#define PISTE_FIELDS_34(m, a, x, ...) m(a, x) PISTE_FIELDS_33(m, a, __VA_ARGS__)
#define PISTE_FIELDS_35(m, a, x, ...) m(a, x) PISTE_FIELDS_34(m, a, __VA_ARGS__)
#define PISTE_FIELDS_36(m, a, x, ...) m(a, x) PISTE_FIELDS_35(m, a, __VA_ARGS__)
#define PISTE_FIELDS_37(m, a, x, ...) m(a, x) PISTE_FIELDS_36(m, a, __VA_ARGS__)
#define PISTE_FIELDS_38(m, a, x, ...) m(a, x) PISTE_FIELDS_37(m, a, __VA_ARGS__)
#define PISTE_FIELDS_39(m, a, x, ...) m(a, x) PISTE_FIELDS_38(m, a, __VA_ARGS__)
#define PISTE_FIELDS_40(m, a, x, ...) m(a, x) PISTE_FIELDS_39(m, a, __VA_ARGS__)

#define PISTE_LABELS(m, a, ...) PISTE_JOIN(PISTE_LABELS_, PISTE_COUNT(__VA_ARGS__))(m, a, __VA_ARGS__)
#define PISTE_LABELS_1(m, a, x) m(a, x)
#define PISTE_LABELS_2(m, a, x, ...) m(a, x) PISTE_LABELS_1(m, a, __VA_ARGS__)
#define PISTE_LABELS_3(m, a, x, ...) m(a, x) PISTE_LABELS_2(m, a, __VA_ARGS__)
#define PISTE_LABELS_4(m, a, x, ...) m(a, x) PISTE_LABELS_3(m, a, __VA_ARGS__)
#define PISTE_LABELS_5(m, a, x, ...) m(a, x) PISTE_LABELS_4(m, a, __VA_ARGS__)
#define PISTE_LABELS_6(m, a, x, ...) m(a, x) PISTE_LABELS_5(m, a, __VA_ARGS__)
#define PISTE_LABELS_7(m, a, x, ...) m(a, x) PISTE_LABELS_6(m, a, __VA_ARGS__)
#define PISTE_LABELS_8(m, a, x, ...) m(a, x) PISTE_LABELS_7(m, a, __VA_ARGS__)
#define PISTE_LABELS_9(m, a, x, ...) m(a, x) PISTE_LABELS_8(m, a, __VA_ARGS__)
#define PISTE_LABELS_10(m, a, x, ...) m(a, x) PISTE_LABELS_9(m, a, __VA_ARGS__)
#define PISTE_LABELS_11(m, a, x, ...) m(a, x) PISTE_LABELS_10(m, a, __VA_ARGS__)
#define PISTE_LABELS_12(m, a, x, ...) m(a, x) PISTE_LABELS_11(m, a, __VA_ARGS__)
#define PISTE_LABELS_13(m, a, x, ...) m(a, x) PISTE_LABELS_12(m, a, __VA_ARGS__)
#define PISTE_LABELS_14(m, a, x, ...) m(a, x) PISTE_LABELS_13(m, a, __VA_ARGS__)
#define PISTE_LABELS_15(m, a, x, ...) m(a, x) PISTE_LABELS_14(m, a, __VA_ARGS__)
#define PISTE_LABELS_16(m, a, x, ...) m(a, x) PISTE_LABELS_15(m, a, __VA_ARGS__)
#define PISTE_LABELS_17(m, a, x, ...) m(a, x) PISTE_LABELS_16(m, a, __VA_ARGS__)
#define PISTE_LABELS_18(m, a, x, ...) m(a, x) PISTE_LABELS_17(m, a, __VA_ARGS__)
#define PISTE_LABELS_19(m, a, x, ...) m(a, x) PISTE_LABELS_18(m, a, __VA_ARGS__)
#define PISTE_LABELS_20(m, a, x, ...) m(a, x) PISTE_LABELS_19(m, a, __VA_ARGS__)
#define PISTE_LABELS_21(m, a, x, ...) m(a, x) PISTE_LABELS_20(m, a, __VA_ARGS__)
#define PISTE_LABELS_22(m, a, x, ...) m(a, x) PISTE_LABELS_21(m, a, __VA_ARGS__)
#define PISTE_LABELS_23(m, a, x, ...) m(a, x) PISTE_LABELS_22(m, a, __VA_ARGS__)
#define PISTE_LABELS_24(m, a, x, ...) m(a, x) PISTE_LABELS_23(m, a, __VA_ARGS__)
#define PISTE_LABELS_25(m, a, x, ...) m(a, x) PISTE_LABELS_24(m, a, __VA_ARGS__)
#define PISTE_LABELS_26(m, a, x, ...) m(a, x) PISTE_LABELS_25(m, a, __VA_ARGS__)
#define PISTE_LABELS_27(m, a, x, ...) m(a, x) PISTE_LABELS_26(m, a, __VA_ARGS__)
#define PISTE_LABELS_28(m, a, x, ...) m(a, x) PISTE_LABELS_27(m, a, __VA_ARGS__)
#define PISTE_LABELS_29(m, a, x, ...) m(a, x) PISTE_LABELS_28(m, a, __VA_ARGS__)
#define PISTE_LABELS_30(m, a, x, ...) m(a, x) PISTE_LABELS_29(m, a, __VA_ARGS__)
#define PISTE_LABELS_31(m, a, x, ...) m(a, x) PISTE_LABELS_30(m, a, __VA_ARGS__)
#define PISTE_LABELS_32(m, a, x, ...) m(a, x) PISTE_LABELS_31(m, a, __VA_ARGS__)
#define PISTE_LABELS_33(m, a, x, ...) m(a, x) PISTE_LABELS_32(m, a, __VA_ARGS__)
#define PISTE_LABELS_34(m, a, x, ...) m(a, x) PISTE_LABELS_33(m, a, __VA_ARGS__)
#define PISTE_LABELS_35(m, a, x, ...) m(a, x) PISTE_LABELS_34(m, a, __VA_ARGS__)
#define PISTE_LABELS_36(m, a, x, ...) m(a, x) PISTE_LABELS_35(m, a, __VA_ARGS__)
#define PISTE_LABELS_37(m, a, x, ...) m(a, x) PISTE_LABELS_36(m, a, __VA_ARGS__)
#define PISTE_LABELS_38(m, a, x, ...) m(a, x) PISTE_LABELS_37(m, a, __VA_ARGS__)
#define PISTE_LABELS_39(m, a, x, ...) m(a, x) PISTE_LABELS_38(m, a, __VA_ARGS__)
#define PISTE_LABELS_40(m, a, x, ...) m(a, x) PISTE_LABELS_39(m, a, __VA_ARGS__)
#define PISTE_LABELS_41(m, a, x, ...) m(a, x) PISTE_LABELS_40(m, a, __VA_ARGS__)
#define PISTE_LABELS_42(m, a, x, ...) m(a, x) PISTE_LABELS_41(m, a, __VA_ARGS__)
#define PISTE_LABELS_43(m, a, x, ...) m(a, x) PISTE_LABELS_42(m, a, __VA_ARGS__)
#define PISTE_LABELS_44(m, a, x, ...) m(a, x) PISTE_LABELS_43(m, a, __VA_ARGS__)
#define PISTE_LABELS_45(m, a, x, ...) m(a, x) PISTE_LABELS_44(m, a, __VA_ARGS__)
#define PISTE_LABELS_46(m, a, x, ...) m(a, x) PISTE_LABELS_45(m, a, __VA_ARGS__)
#define PISTE_LABELS_47(m, a, x, ...) m(a, x) PISTE_LABELS_46(m, a, __VA_ARGS__)
#define PISTE_LABELS_48(m, a, x, ...) m(a, x) PISTE_LABELS_47(m, a, __VA_ARGS__)
#define PISTE_LABELS_49(m, a, x, ...) m(a, x) PISTE_LABELS_48(m, a, __VA_ARGS__)
#define PISTE_LABELS_50(m, a, x, ...) m(a, x) PISTE_LABELS_49(m, a, __VA_ARGS__)
#define PISTE_LABELS_51(m, a, x, ...) m(a, x) PISTE_LABELS_50(m, a, __VA_ARGS__)
#define PISTE_LABELS_52(m, a, x, ...) m(a, x) PISTE_LABELS_51(m, a, __VA_ARGS__)
#define PISTE_LABELS_53(m, a, x, ...) m(a, x) PISTE_LABELS_52(m, a, __VA_ARGS__)
#define PISTE_LABELS_54(m, a, x, ...) m(a, x) PISTE_LABELS_53(m, a, __VA_ARGS__)
#define PISTE_LABELS_55(m, a, x, ...) m(a, x) PISTE_LABELS_54(m, a, __VA_ARGS__)
#define PISTE_LABELS_56(m, a, x, ...) m(a, x) PISTE_LABELS_55(m, a, __VA_ARGS__)
#define PISTE_LABELS_57(m, a, x, ...) m(a, x) PISTE_LABELS_56(m, a, __VA_ARGS__)
#define PISTE_LABELS_58(m, a, x, ...) m(a, x) PISTE_LABELS_57(m, a, __VA_ARGS__)
#define PISTE_LABELS_59(m, a, x, ...) m(a, x) PISTE_LABELS_58(m, a, __VA_ARGS__)
#define PISTE_LABELS_60(m, a, x, ...) m(a, x) PISTE_LABELS_59(m, a, __VA_ARGS__)
#define PISTE_LABELS_61(m, a, x, ...) m(a, x) PISTE_LABELS_60(m, a, __VA_ARGS__)
#define PISTE_LABELS_62(m, a, x, ...) m(a, x) PISTE_LABELS_61(m, a, __VA_ARGS__)
#define PISTE_LABELS_63(m, a, x, ...) m(a, x) PISTE_LABELS_62(m, a, __VA_ARGS__)
#define PISTE_LABELS_64(m, a, x, ...) m(a, x) PISTE_LABELS_63(m, a, __VA_ARGS__)
#define PISTE_LABELS_65(m, a, x, ...) m(a, x) PISTE_LABELS_64(m, a, __VA_ARGS__)
#define PISTE_LABELS_66(m, a, x, ...) m(a, x) PISTE_LABELS_65(m, a, __VA_ARGS__)
#define PISTE_LABELS_67(m, a, x, ...) m(a, x) PISTE_LABELS_66(m, a, __VA_ARGS__)
#define PISTE_LABELS_68(m, a, x, ...) m(a, x) PISTE_LABELS_67(m, a, __VA_ARGS__)
#define PISTE_LABELS_69(m, a, x, ...) m(a, x) PISTE_LABELS_68(m, a, __VA_ARGS__)
#define PISTE_LABELS_70(m, a, x, ...) m(a, x) PISTE_LABELS_69(m, a, __VA_ARGS__)
#define PISTE_LABELS_71(m, a, x, ...) m(a, x) PISTE_LABELS_70(m, a, __VA_ARGS__)
#define PISTE_LABELS_72(m, a, x, ...) m(a, x) PISTE_LABELS_71(m, a, __VA_ARGS__)
#define PISTE_LABELS_73(m, a, x, ...) m(a, x) PISTE_LABELS_72(m, a, __VA_ARGS__)
#define PISTE_LABELS_74(m, a, x, ...) m(a, x) PISTE_LABELS_73(m, a, __VA_ARGS__)
#define PISTE_LABELS_75(m, a, x, ...) m(a, x) PISTE_LABELS_74(m, a, __VA_ARGS__)
#define PISTE_LABELS_76(m, a, x, ...) m(a, x) PISTE_LABELS_75(m, a, __VA_ARGS__)
#define PISTE_LABELS_77(m, a, x, ...) m(a, x) PISTE_LABELS_76(m, a, __VA_ARGS__)
#define PISTE_LABELS_78(m, a, x, ...) m(a, x) PISTE_LABELS_77(m, a, __VA_ARGS__)
#define PISTE_LABELS_79(m, a, x, ...) m(a, x) PISTE_LABELS_78(m, a, __VA_ARGS__)
#define PISTE_LABELS_80(m, a, x, ...) m(a, x) PISTE_LABELS_79(m, a, __VA_ARGS__)
#define PISTE_LABELS_81(m, a, x, ...) m(a, x) PISTE_LABELS_80(m, a, __VA_ARGS__)
#define PISTE_LABELS_82(m, a, x, ...) m(a, x) PISTE_LABELS_81(m, a, __VA_ARGS__)
#define PISTE_LABELS_83(m, a, x, ...) m(a, x) PISTE_LABELS_82(m, a, __VA_ARGS__)
#define PISTE_LABELS_84(m, a, x, ...) m(a, x) PISTE_LABELS_83(m, a, __VA_ARGS__)
#define PISTE_LABELS_85(m, a, x, ...) m(a, x) PISTE_LABELS_84(m, a, __VA_ARGS__)
#define PISTE_LABELS_86(m, a, x, ...) m(a, x) PISTE_LABELS_85(m, a, __VA_ARGS__)
#define PISTE_LABELS_87(m, a, x, ...) m(a, x) PISTE_LABELS_86(m, a, __VA_ARGS__)
#define PISTE_LABELS_88(m, a, x, ...) m(a, x) PISTE_LABELS_87(m, a, __VA_ARGS__)
#define PISTE_LABELS_89(m, a, x, ...) m(a, x) PISTE_LABELS_88(m, a, __VA_ARGS__)
#define PISTE_LABELS_90(m, a, x, ...) m(a, x) PISTE_LABELS_89(m, a, __VA_ARGS__)
#define PISTE_LABELS_91(m, a, x, ...) m(a, x) PISTE_LABELS_90(m, a, __VA_ARGS__)
#define PISTE_LABELS_92(m, a, x, ...) m(a, x) PISTE_LABELS_91(m, a, __VA_ARGS__)
#define PISTE_LABELS_93(m, a, x, ...) m(a, x) PISTE_LABELS_92(m, a, __VA_ARGS__)
#define PISTE_LABELS_94(m, a, x, ...) m(a, x) PISTE_LABELS_93(m, a, __VA_ARGS__)
#define PISTE_LABELS_95(m, a, x, ...) m(a, x) PISTE_LABELS_94(m, a, __VA_ARGS__)
#define PISTE_LABELS_96(m, a, x, ...) m(a, x) PISTE_LABELS_95(m, a, __VA_ARGS__)
#define PISTE_LABELS_97(m, a, x, ...) m(a, x) PISTE_LABELS_96(m, a, __VA_ARGS__)
#define PISTE_LABELS_98(m, a, x, ...) m(a, x) PISTE_LABELS_97(m, a, __VA_ARGS__)
#define PISTE_LABELS_99(m, a, x, ...) m(a, x) PISTE_LABELS_98(m, a, __VA_ARGS__)
#define PISTE_LABELS_100(m, a, x, ...) m(a, x) PISTE_LABELS_99(m, a, __VA_ARGS__)
#define PISTE_LABELS_101(m, a, x, ...) m(a, x) PISTE_LABELS_100(m, a, __VA_ARGS__)
#define PISTE_LABELS_102(m, a, x, ...) m(a, x) PISTE_LABELS_101(m, a, __VA_ARGS__)
#define PISTE_LABELS_103(m, a, x, ...) m(a, x) PISTE_LABELS_102(m, a, __VA_ARGS__)
#define PISTE_LABELS_104(m, a, x, ...) m(a, x) PISTE_LABELS_103(m, a, __VA_ARGS__)
#define PISTE_LABELS_105(m, a, x, ...) m(a, x) PISTE_LABELS_104(m, a, __VA_ARGS__)
#define PISTE_LABELS_106(m, a, x, ...) m(a, x) PISTE_LABELS_105(m, a, __VA_ARGS__)
#define PISTE_LABELS_107(m, a, x, ...) m(a, x) PISTE_LABELS_106(m, a, __VA_ARGS__)
#define PISTE_LABELS_108(m, a, x, ...) m(a, x) PISTE_LABELS_107(m, a, __VA_ARGS__)
#define PISTE_LABELS_109(m, a, x, ...) m(a, x) PISTE_LABELS_108(m, a, __VA_ARGS__)
#define PISTE_LABELS_110(m, a, x, ...) m(a, x) PISTE_LABELS_109(m, a, __VA_ARGS__)
#define PISTE_LABELS_111(m, a, x, ...) m(a, x) PISTE_LABELS_110(m, a, __VA_ARGS__)
#define PISTE_LABELS_112(m, a, x, ...) m(a, x) PISTE_LABELS_111(m, a, __VA_ARGS__)
#define PISTE_LABELS_113(m, a, x, ...) m(a, x) PISTE_LABELS_112(m, a, __VA_ARGS__)
#define PISTE_LABELS_114(m, a, x, ...) m(a, x) PISTE_LABELS_113(m, a, __VA_ARGS__)
#define PISTE_LABELS_115(m, a, x, ...) m(a, x) PISTE_LABELS_114(m, a, __VA_ARGS__)
#define PISTE_LABELS_116(m, a, x, ...) m(a, x) PISTE_LABELS_115(m, a, __VA_ARGS__)
#define PISTE_LABELS_117(m, a, x, ...) m(a, x) PISTE_LABELS_116(m, a, __VA_ARGS__)
#define PISTE_LABELS_118(m, a, x, ...) m(a, x) PISTE_LABELS_117(m, a, __VA_ARGS__)
#define PISTE_LABELS_119(m, a, x, ...) m(a, x) PISTE_LABELS_118(m, a, __VA_ARGS__)
#define PISTE_LABELS_120(m, a, x, ...) m(a, x) PISTE_LABELS_119(m, a, __VA_ARGS__)
#define PISTE_LABELS_121(m, a, x, ...) m(a, x) PISTE_LABELS_120(m, a, __VA_ARGS__)
#define PISTE_LABELS_122(m, a, x, ...) m(a, x) PISTE_LABELS_121(m, a, __VA_ARGS__)
#define PISTE_LABELS_123(m, a, x, ...) m(a, x) PISTE_LABELS_122(m, a, __VA_ARGS__)
#define PISTE_LABELS_124(m, a, x, ...) m(a, x) PISTE_LABELS_123(m, a, __VA_ARGS__)
#define PISTE_LABELS_125(m, a, x, ...) m(a, x) PISTE_LABELS_124(m, a, __VA_ARGS__)
#define PISTE_LABELS_126(m, a, x, ...) m(a, x) PISTE_LABELS_125(m, a, __VA_ARGS__)
#define PISTE_LABELS_127(m, a, x, ...) m(a, x) PISTE_LABELS_126(m, a, __VA_ARGS__)
#define PISTE_LABELS_128(m, a, x, ...) m(a, x) PISTE_LABELS_127(m, a, __VA_ARGS__)
/* clang-format on */

#endif
